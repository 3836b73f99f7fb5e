// An echo, a hash, a wait and a large result, served by mcp-go on stdio.

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const row = "A line of a large result, which has sixty-four characters, yes.\n"

var data = make([]byte, 1<<20)

type said struct {
	Text string `json:"text"`
}

type nothing struct{}

type pause struct {
	Milliseconds int `json:"milliseconds"`
}

type size struct {
	Count int `json:"count"`
}

func echo(_ context.Context, _ mcp.CallToolRequest, given said) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(given.Text), nil
}

func digest(context.Context, mcp.CallToolRequest, nothing) (*mcp.CallToolResult, error) {
	sum := sha256.Sum256(data)
	return mcp.NewToolResultText(hex.EncodeToString(sum[:])), nil
}

func wait(ctx context.Context, _ mcp.CallToolRequest, given pause) (*mcp.CallToolResult, error) {
	select {
	case <-time.After(time.Duration(given.Milliseconds) * time.Millisecond):
		return mcp.NewToolResultText("done"), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func rows(_ context.Context, _ mcp.CallToolRequest, given size) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(strings.Repeat(row, given.Count)), nil
}

func main() {
	served := server.NewMCPServer("work", "1.0", server.WithToolCapabilities(false))
	served.AddTool(mcp.NewTool("echo",
		mcp.WithDescription("Return the text."),
		mcp.WithInputSchema[said](),
	), mcp.NewTypedToolHandler(echo))
	served.AddTool(mcp.NewTool("digest",
		mcp.WithDescription("Keep the processor busy: hash a mebibyte."),
		mcp.WithInputSchema[nothing](),
	), mcp.NewTypedToolHandler(digest))
	served.AddTool(mcp.NewTool("wait",
		mcp.WithDescription("Wait, as for a database."),
		mcp.WithInputSchema[pause](),
	), mcp.NewTypedToolHandler(wait))
	served.AddTool(mcp.NewTool("rows",
		mcp.WithDescription("Return so many lines."),
		mcp.WithInputSchema[size](),
	), mcp.NewTypedToolHandler(rows))

	if err := server.ServeStdio(served); err != nil {
		log.Fatal(err)
	}
}
