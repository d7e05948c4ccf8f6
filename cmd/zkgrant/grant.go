//go:build unix

package main

import (
	"encoding/json"
	"math"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// grantLine is a Grant as JSON.
type grantLine struct {
	Event     string          `json:"event"`
	Path      string          `json:"path"`
	Kind      string          `json:"kind"`
	Node      string          `json:"node"`
	Token     int64           `json:"token"`
	Session   string          `json:"session"`
	Seconds   float64         `json:"seconds"`
	Members   json.RawMessage `json:"members,omitempty"`
	Abandoned json.RawMessage `json:"abandoned,omitempty"`
}

func granted(g events.Grant, kind string) grantLine {
	return grantLine{"granted", g.Path, kind, g.Node, g.Token, sessionID(g.Session), g.Waited.Seconds(), membersOf(g.Members), abandonedOf(g, math.MaxInt)}
}

// membersOf returns the members of a multi-lock, or nil for other locks.
func membersOf(members []events.Member) json.RawMessage {
	type member struct {
		Path string `json:"path"`
		Node string `json:"node"`
	}
	var all []member
	for _, m := range members {
		all = append(all, member(m))
	}
	return raw(all, len(all) > 0)
}

// abandonedOf describes the crashed holder, with at most most bytes of its data. It
// returns nil if there is none.
func abandonedOf(g events.Grant, most int) json.RawMessage {
	if g.Abandoned == nil {
		return nil
	}
	data := g.Abandoned.Data
	return raw(struct {
		Node  string    `json:"node"`
		Token int64     `json:"token"`
		Since time.Time `json:"since"`
		Data  string    `json:"data"`
		Cut   bool      `json:"cut,omitempty"` // the data was truncated
	}{g.Abandoned.Node, g.Abandoned.Token, g.Abandoned.Since, string(data[:min(len(data), most)]), len(data) > most}, true)
}

func raw(value any, there bool) json.RawMessage {
	if !there {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil { // strings and numbers always marshal, and so do the times of a record
		panic(err)
	}
	return text
}
