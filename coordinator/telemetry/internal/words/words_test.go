package words_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachResultOfARequestHasAWord(t *testing.T) {
	for err, want := range map[error]string{
		nil: "ok", zk.ErrNoNode: "no_node", fmt.Errorf("multi: %w", zk.ErrNodeExists): "node_exists", zk.ErrConnectionClosed: "connection_closed",
		errors.New("transaction refused"): "error",
	} {
		if got := words.Result(err); got != want {
			t.Errorf("a request with %v has the result %s, want %s", err, got, want)
		}
	}
}

func TestRequestsHaveAFixedNumberOfWords(t *testing.T) {
	for op, want := range map[string]string{"create": "create", words.Closing: "closeSession", "operation 77": "other"} {
		if got := words.Op(op); got != want {
			t.Errorf("the request %s is called %s, want %s", op, got, want)
		}
	}
}
