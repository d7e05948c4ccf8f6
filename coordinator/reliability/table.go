package reliability

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Read reads figures, a line of JSON for each, as Report writes them.
func Read(r io.Reader) ([]Figure, error) {
	var figures []Figure
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var f Figure
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(figures)+1, err)
		}
		figures = append(figures, f)
	}
	return figures, lines.Err()
}

// Table renders the figures in Markdown, the rows in their order and the figures of a row in theirs. A row without a
// figure says so.
func Table(figures []Figure) string {
	var b strings.Builder
	b.WriteString("| property | to reach | measured | by |\n|---|---|---|---|\n")
	for _, row := range Rows() {
		var texts, tests []string
		for _, f := range figures {
			if f.Row != row {
				continue
			}
			texts = append(texts, f.Text)
			if name, _, _ := strings.Cut(f.Test, "/"); len(tests) == 0 || tests[len(tests)-1] != name {
				tests = append(tests, name)
			}
		}
		if texts == nil {
			texts = []string{"**not measured**"}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", row.Property(), row.Goal(), cell(texts), cell(tests))
	}
	return b.String()
}

// cell puts several lines into one field of the table.
func cell(lines []string) string {
	return strings.NewReplacer("|", `\|`, "\n", "<br>").Replace(strings.Join(lines, "\n"))
}
