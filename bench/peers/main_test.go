package peers

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// playEnv, in its environment, makes the test binary one of the tests' processes.
const playEnv = "ZKGRANT_TEST_PROCESS"

func TestMain(m *testing.M) {
	switch role := os.Getenv(playEnv); role {
	case "":
		goleak.VerifyTestMain(m)
	case "polite": // counts, complains, and ends with its input
		for i := range 3 {
			fmt.Println("line", i)
		}
		fmt.Fprintln(os.Stderr, "a remark")
		fmt.Println("ready")
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			continue // to the end
		}
		fmt.Println("bye")
	case "failing":
		fmt.Fprintln(os.Stderr, "what went wrong")
		os.Exit(3)
	case "stubborn": // ignores its input
		fmt.Println("ready")
		<-time.After(time.Hour)
	default:
		panic("no role " + role)
	}
}

// play is the command of one of them.
func play(role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), playEnv+"="+role)
	return cmd
}
