// Command table prints the measurements from a file of figures, in Markdown: a section
// for each property.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatalf("one file of figures is needed, not %d", len(os.Args)-1)
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	texts, tests := map[reliability.Row][]string{}, map[reliability.Row][]string{}
	for line := range strings.Lines(string(text)) {
		var f reliability.Figure
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			log.Fatalf("%s: %v", line, err)
		}
		texts[f.Row] = append(texts[f.Row], f.Text)
		if name, _, _ := strings.Cut(f.Test, "/"); !slices.Contains(tests[f.Row], name) {
			tests[f.Row] = append(tests[f.Row], name)
		}
	}
	for _, r := range []struct {
		row            reliability.Row
		property, goal string
	}{
		{reliability.RowPartition, "A silent partition longer than T: Lost and the next holder's Grant", "Lost first in every trial, by at least T/25"},
		{reliability.RowStaleFollower, "A holder on a follower that has lost its leader", "no overlap; Lost before the real expiry in every trial"},
		{reliability.RowTwoHolders, "Two valid holders at the same time", "0"},
		{reliability.RowSpuriousLost, "Locks lost without need, T = 10 s: short outages, rolling restarts, killed leaders", "0"},
		{reliability.RowOrphans, "Nodes left or doubled when a frame is lost, at every frame boundary", "0"},
		{reliability.RowWedged, "Waiters without a lock after everything has healed", "0"},
		{reliability.RowContinued, "A process halted beyond T and continued: the time until Lost", "at most 5 ms (p99), and Valid is never wrong"},
		{reliability.RowStaleWrites, "Accepted writes of past holders", "0 with Txn, and 0 where tokens are compared"},
		{reliability.RowMuteServer, "Reconnecting past a server that accepts connections and says nothing", "at most T/3"},
		{reliability.RowLeaks, "What 10,000 locks leave that were acquired, cancelled or expired", "nothing, and no more watches than live predecessors"},
		{reliability.RowHistories, "Recorded histories, checked by the model of a fenced lock", "all legal"},
		{reliability.RowFault, "Other faults of real servers", "no two holders, and no stuck waiter"},
	} {
		fmt.Printf("\n## %s\n\nGoal: %s.", r.property, r.goal)
		if texts[r.row] == nil {
			fmt.Println(" **Not measured.**")
			continue
		}
		fmt.Printf(" Measured by %s.\n\n", strings.Join(tests[r.row], ", "))
		for _, text := range texts[r.row] {
			fmt.Printf("- %s\n", text)
		}
	}
}
