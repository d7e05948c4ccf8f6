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
	for _, r := range reliability.Rows() {
		fmt.Printf("\n## %s\n\nGoal: %s.", r.Property, r.Goal)
		if texts[r.Row] == nil {
			fmt.Println(" **Not measured.**")
			continue
		}
		fmt.Printf(" Measured by %s.\n\n", strings.Join(tests[r.Row], ", "))
		for _, text := range texts[r.Row] {
			fmt.Printf("- %s\n", text)
		}
	}
}
