"""Apps: pages that hosts show with the results of tools (SEP-1865)."""

from trio_mcp.extensions.apps.client import AppsClient as AppsClient
from trio_mcp.extensions.apps.client import RemotePage as RemotePage
from trio_mcp.extensions.apps.page import UI as UI
from trio_mcp.extensions.apps.server import App as App
from trio_mcp.extensions.apps.server import Apps as Apps
from trio_mcp.extensions.apps.server import Csp as Csp
from trio_mcp.extensions.apps.server import Page as Page
