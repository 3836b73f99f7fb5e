module servers

go 1.25

require (
	github.com/mark3labs/mcp-go v0.58.0
	github.com/redis/go-redis/v9 v9.17.2
)
