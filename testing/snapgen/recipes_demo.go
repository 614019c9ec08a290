package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/rfsd/rfsd/testing/bench/corpus"
)

func demoRecipes() []recipe {
	return []recipe{{
		name:  "7.10.2-demo",
		holds: "a shop's orders, its web logs and a catalogue, for people who try the program (make demo)",
		make:  demo,
	}}
}

// demo fills three indices like a small shop's.
func demo(ctx context.Context, l *lab) error {
	if err := l.boot(ctx, "7.10.2"); err != nil {
		return err
	}
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	orders := `"order_id":{"type":"long"},"status":{"type":"keyword"},"created_at":{"type":"date"},"total":{"type":"scaled_float","scaling_factor":100},
		"customer":{"properties":{"name":{"type":"text"},"email":{"type":"keyword"},"address":{"properties":{"geo":{"type":"geo_point"}}}}},
		"items":{"type":"nested","properties":{"sku":{"type":"keyword"},"qty":{"type":"integer"},"price":{"type":"double"}}}`
	if err := l.create(ctx, "orders", `"number_of_shards":2`, orders); err != nil {
		return err
	}
	logs := `"@timestamp":{"type":"date"},"level":{"type":"keyword"},"message":{"type":"text"}`
	if err := l.create(ctx, "weblogs", `"number_of_shards":1,"codec":"best_compression"`, logs); err != nil {
		return err
	}
	if err := l.create(ctx, "catalogue", `"number_of_shards":1`, `"name":{"type":"text"},"price":{"type":"double"},"sku":{"type":"keyword"}`); err != nil {
		return err
	}
	if err := l.fillShop(ctx); err != nil {
		return err
	}
	if err := l.put(ctx, http.MethodPost, "/_aliases", `{"actions":[{"add":{"index":"orders","alias":"sales"}}]}`); err != nil {
		return err
	}
	return l.take(ctx, "snap1", "")
}

func (l *lab) fillShop(ctx context.Context) error {
	mixed, err := corpus.New(corpus.Mixed)
	if err != nil {
		return err
	}
	lines, err := corpus.New(corpus.Logs)
	if err != nil {
		return err
	}
	var placed, changed, logged, offered body
	for i := range 80 {
		if i%4 != 0 { // every fourth is an access log
			placed.index(strconv.Itoa(1_000_000+i), string(mixed.Append(nil, i, 0)), `"routing":`+quote(strconv.Itoa(i%7)))
		}
	}
	for i := 1; i < 80; i += 12 {
		changed.index(strconv.Itoa(1_000_000+i), string(mixed.Append(nil, i, 1)), `"routing":`+quote(strconv.Itoa(i%7)))
		fmt.Fprintf(&changed.b, "{\"delete\":{\"_id\":\"%d\",\"routing\":\"%d\"}}\n", 1_000_001+i, (i+1)%7)
	}
	for i := range 100 {
		logged.auto(string(lines.Append(nil, i, 0)))
	}
	for i, name := range []string{"Kaffeemühle", "théière", "чашка", "湯呑み", "кофе ☕", "sugar bowl"} {
		offered.index("p/"+name, fmt.Sprintf(`{ "name": %q, "price": %d.50, "sku": 12345678901234567890 }`, name, 10+i))
	}
	for _, part := range []struct {
		index string
		body  *body
	}{{"orders", &placed}, {"orders", &changed}, {"weblogs", &logged}, {"catalogue", &offered}} {
		if err := l.load(ctx, part.index, part.body); err != nil {
			return err
		}
	}
	return nil
}
