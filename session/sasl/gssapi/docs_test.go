package gssapi

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestThePageIsAnExample: its Go block equals a compiled example, and the page names
// every error of the package.
func TestThePageIsAnExample(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		eventstest.Must(t, err)
		return string(text)
	}
	page, squeezed := read("../../../docs/kerberos.md"), func(s string) string { return strings.Join(strings.Fields(s), " ") }
	example := squeezed(read("example_test.go"))
	blocks := regexp.MustCompile("(?s)```golang\n(.*?)```").FindAllStringSubmatch(page, -1)
	for _, block := range blocks {
		eventstest.Contains(t, example, squeezed(block[1]), "the examples")
	}
	names := regexp.MustCompile(`(?m)^\t(Err\w+) =|^func ([A-Z]\w+)\(`).FindAllStringSubmatch(read("errors.go")+read("gssapi.go"), -1)
	for _, name := range names {
		eventstest.Expect(t, strings.Contains(page, "`"+name[1]+name[2]), "%s%s is not named", name[1], name[2])
	}
	eventstest.Expect(t, len(blocks) != 0 && len(names) >= 9, "%d blocks, %d names", len(blocks), len(names))
}
