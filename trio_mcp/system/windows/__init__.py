"""What only Windows has, called through `ctypes`. Nothing here can be imported anywhere else."""
