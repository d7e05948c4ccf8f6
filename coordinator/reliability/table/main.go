// Command table prints the table of measurements, in Markdown, from a file of figures.
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
	cell := func(lines []string) string { return strings.ReplaceAll(strings.Join(lines, "<br>"), "|", `\|`) }
	fmt.Println("| property | to reach | measured | by |\n|---|---|---|---|")
	for _, r := range reliability.Rows() {
		if texts[r.Row] == nil {
			texts[r.Row] = []string{"**not measured**"}
		}
		fmt.Printf("| %s | %s | %s | %s |\n", r.Property, r.Goal, cell(texts[r.Row]), cell(tests[r.Row]))
	}
}
