package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// customer orders every tenth of a second from whomever, and where the answer names
// the leader, from that one. After ten orders it has the leader end. It stays until
// ctx ends.
func customer(ctx context.Context, say func(string, ...any), addresses []string, end func(leader string)) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	taken, last := 0, ""
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			say("the customer had %d orders taken", taken)
			return
		}
		address := addresses[rand.IntN(len(addresses))]
		status, leader, text := order(ctx, client, address)
		if status == http.StatusServiceUnavailable && leader != "" {
			if leader != last {
				say("the customer asks %s: %s", address, text)
			}
			address = leader
			status, _, text = order(ctx, client, leader)
		}
		if status != http.StatusOK || address != last { // who goes on taking orders is not worth a line
			say("the customer asks %s: %s", address, text)
		}
		last = ""
		if status == http.StatusOK {
			taken++
			last = address
		}
		if status == http.StatusOK && taken == 10 {
			end(address)
		}
	}
}

// order asks once. The status is 0 if there was no answer.
func order(ctx context.Context, client *http.Client, address string) (status int, leader, text string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/orders", http.NoBody)
	if err != nil {
		return 0, "", err.Error()
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err != nil {
		return 0, "", err.Error()
	}
	return response.StatusCode, response.Header.Get("Leader"), strings.TrimSpace(string(body))
}
