package actors_test

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/actors"
)

// TestAHandlerThatDoesNotReturnEndsTheProgram, whoever's goroutine it ran in: a caller
// who recovers would leave an actor behind that nobody drains.
func TestAHandlerThatDoesNotReturnEndsTheProgram(t *testing.T) {
	const how = "ZKGRANT_BROKEN_HANDLER"
	handlers := map[string]func(){"panics": func() { panic("on purpose") }, "exits": runtime.Goexit}
	if handler := handlers[os.Getenv(how)]; handler != nil {
		var group actors.Group
		actor := actors.NewActor(&group, func(int) { handler() })
		defer func() { _ = recover() }()
		actor.Hand(1)
		return
	}
	for name := range handlers {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$")
			cmd.Env = append(os.Environ(), how+"="+name)
			said, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(said), "an actor's handler has not returned") {
				t.Errorf("ended with %v\n%s", err, said)
			}
		})
	}
}
