// The tools of the published comparison, served by mcp-go over streamable HTTP.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/redis/go-redis/v9"
)

const (
	top    = 10
	recent = 5
)

var (
	api    = os.Getenv("COMPANY_API")
	store  *redis.Client
	client = &http.Client{Transport: &http.Transport{MaxIdleConns: 100, MaxIdleConnsPerHost: 100}}
)

type search struct {
	Category string  `json:"category"`
	MinPrice float64 `json:"min_price"`
	MaxPrice float64 `json:"max_price"`
	Limit    int     `json:"limit"`
}

type user struct {
	UserID string `json:"user_id"`
}

type item struct {
	ProductID int `json:"product_id"`
	Quantity  int `json:"quantity"`
}

type order struct {
	UserID string `json:"user_id"`
	Items  []item `json:"items"`
}

type product struct {
	ID             int     `json:"id"`
	SKU            string  `json:"sku"`
	Name           string  `json:"name"`
	Price          float64 `json:"price"`
	Rating         float64 `json:"rating"`
	PopularityRank int     `json:"popularity_rank"`
}

// read decodes what the HTTP API answers.
func read(request *http.Request, into any) error {
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}

func get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, api+path, nil)
	if err != nil {
		return err
	}
	return read(request, into)
}

// both runs two at the same time.
func both(one, other func() error) error {
	done := make(chan error, 1)
	go func() { done <- other() }()
	first := one()
	if second := <-done; second != nil {
		return second
	}
	return first
}

func searchProducts(ctx context.Context, _ mcp.CallToolRequest, wanted search) (*mcp.CallToolResult, error) {
	query := url.Values{
		"category":  {wanted.Category},
		"min_price": {strconv.FormatFloat(wanted.MinPrice, 'f', -1, 64)},
		"max_price": {strconv.FormatFloat(wanted.MaxPrice, 'f', -1, 64)},
		"limit":     {strconv.Itoa(wanted.Limit)},
	}
	var found struct {
		TotalFound int       `json:"total_found"`
		Products   []product `json:"products"`
	}
	var members []string
	err := both(
		func() error { return get(ctx, "/products/search?"+query.Encode(), &found) },
		func() (err error) {
			members, err = store.ZRevRange(ctx, "bench:popular", 0, top-1).Result()
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	popular := make([]int, 0, len(members))
	ranks := make(map[int]int, len(members))
	for rank, member := range members {
		_, number, _ := strings.Cut(member, ":")
		id, err := strconv.Atoi(number)
		if err != nil {
			return nil, err
		}
		popular = append(popular, id)
		ranks[id] = rank + 1
	}
	for place := range found.Products {
		found.Products[place].PopularityRank = ranks[found.Products[place].ID]
	}
	return text(map[string]any{
		"category":          wanted.Category,
		"total_found":       found.TotalFound,
		"products":          found.Products,
		"top10_popular_ids": popular,
	})
}

func getUserCart(ctx context.Context, _ mcp.CallToolRequest, who user) (*mcp.CallToolResult, error) {
	cart, err := store.HGetAll(ctx, "bench:cart:"+who.UserID).Result()
	if err != nil {
		return nil, err
	}
	var items []item
	if err := json.Unmarshal([]byte(cart["items"]), &items); err != nil {
		return nil, err
	}
	total, err := strconv.ParseFloat(cart["total"], 64)
	if err != nil {
		return nil, err
	}
	var shown map[string]any
	var history []string
	err = both(
		func() error { return get(ctx, fmt.Sprintf("/products/%d", items[0].ProductID), &shown) },
		func() (err error) {
			history, err = store.LRange(ctx, "bench:history:"+who.UserID, 0, recent-1).Result()
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	orders := make([]any, len(history))
	for place, each := range history {
		if err := json.Unmarshal([]byte(each), &orders[place]); err != nil {
			return nil, err
		}
	}
	return text(map[string]any{
		"user_id":        who.UserID,
		"cart":           map[string]any{"items": items, "item_count": len(items), "estimated_total": total},
		"recent_history": orders,
	})
}

func checkout(ctx context.Context, _ mcp.CallToolRequest, wanted order) (*mcp.CallToolResult, error) {
	_, digits, _ := strings.Cut(wanted.UserID, "-")
	number, err := strconv.Atoi(digits)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	written, err := json.Marshal(map[string]any{
		"order_id": fmt.Sprintf("ORD-%s-%d", wanted.UserID, time.Now().Unix()),
		"items":    wanted.Items,
	})
	if err != nil {
		return nil, err
	}
	var priced struct {
		OrderID string  `json:"order_id"`
		Total   float64 `json:"total"`
	}
	var count *redis.IntCmd
	err = both(
		func() error {
			request, err := http.NewRequestWithContext(
				ctx, http.MethodPost, api+"/cart/calculate", bytes.NewReader(body))
			if err != nil {
				return err
			}
			request.Header.Set("Content-Type", "application/json")
			return read(request, &priced)
		},
		func() error {
			_, err := store.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				count = pipe.Incr(ctx, fmt.Sprintf("bench:ratelimit:user-%05d", number%100))
				pipe.RPush(ctx, "bench:history:"+wanted.UserID, written)
				pipe.ZIncrBy(ctx, "bench:popular", 1, fmt.Sprintf("product:%d", wanted.Items[0].ProductID))
				return nil
			})
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	return text(map[string]any{
		"order_id":         priced.OrderID,
		"user_id":          wanted.UserID,
		"total":            priced.Total,
		"items_count":      len(wanted.Items),
		"rate_limit_count": count.Val(),
		"status":           "confirmed",
	})
}

func text(result any) (*mcp.CallToolResult, error) {
	encoded, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	return mcp.NewToolResultText(string(encoded)), nil
}

func main() {
	options, err := redis.ParseURL(os.Getenv("COMPANY_REDIS"))
	if err != nil {
		log.Fatal(err)
	}
	store = redis.NewClient(options)

	served := server.NewMCPServer("company", "1.0", server.WithToolCapabilities(false))
	served.AddTool(mcp.NewTool("search_products",
		mcp.WithDescription("Search products by category and price."),
		mcp.WithInputSchema[search](),
	), mcp.NewTypedToolHandler(searchProducts))
	served.AddTool(mcp.NewTool("get_user_cart",
		mcp.WithDescription("Show a cart and the last orders."),
		mcp.WithInputSchema[user](),
	), mcp.NewTypedToolHandler(getUserCart))
	served.AddTool(mcp.NewTool("checkout",
		mcp.WithDescription("Order what is in a cart."),
		mcp.WithInputSchema[order](),
	), mcp.NewTypedToolHandler(checkout))

	log.Fatal(server.NewStreamableHTTPServer(served).Start("127.0.0.1:" + os.Args[1]))
}
