package coordinator_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeLinks: each file that the README and CONTRIBUTING link to exists, and
// each test that they name is in the file that the link leads to.
func TestReadmeLinks(t *testing.T) {
	const root = ".."
	link := regexp.MustCompile(`\[([^\]]+)\]\(([^)#]+)\)`)
	tests := 0
	for _, page := range []string{"README.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			label, target := m[1], m[2]
			if strings.HasPrefix(target, "https://") {
				continue
			}
			info, err := os.Stat(filepath.Join(root, target))
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if !strings.HasPrefix(label, "Test") || info.IsDir() {
				continue
			}
			tests++
			source, err := os.ReadFile(filepath.Join(root, target))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(source), "\nfunc "+label+"(") {
				t.Errorf("%s: there is no %s in %s", page, label, target)
			}
		}
	}
	if tests < 10 {
		t.Errorf("only %d tests are named", tests)
	}
}
