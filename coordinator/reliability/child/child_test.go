package child_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator/reliability/child"
)

const variable = "ZKGRANT_CHILD_TEST"

func TestMain(m *testing.M) {
	child.Job(variable, shout)
	goleak.VerifyTestMain(m)
}

// shout repeats each line, until there are no more.
func shout(job string) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(job, strings.ToUpper(lines.Text()))
	}
	return lines.Err()
}

func TestAChildDoesItsJob(t *testing.T) {
	c := child.Start(t, "the shouter", variable, "so:", nil)
	if _, err := fmt.Fprintln(c.In, "hello"); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(c.Out).ReadString('\n')
	if err != nil || answer != "so: HELLO\n" {
		t.Errorf("the child said %q, %v; want %q", answer, err, "so: HELLO\n")
	}
}
