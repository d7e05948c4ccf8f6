//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// beginBoard starts the program and returns the page's address.
func beginBoard(t *testing.T, servers string, flags ...string) (*eventstest.Process, string) {
	t.Helper()
	p := begin(t, "", append([]string{"board", "/locks", "--servers", servers, "--listen", "127.0.0.1:0"}, flags...)...)
	p.Await(t, "http://", 1)
	return p, regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(p.String())
}

// fetch returns the answer to a request. The end of the test closes its body.
func fetch(t *testing.T, method, url, body string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func bodyOf(t *testing.T, response *http.Response) string {
	t.Helper()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func TestBoardServesUntilItIsInterrupted(t *testing.T) { boardServes(t, zktest.Start(t).Addr()) }

func testRealBoard(t *testing.T, e *ensemble.Ensemble) { boardServes(t, e.Connect()) }

func boardServes(t *testing.T, servers string) {
	t.Helper()
	holder := begin(t, "", append([]string{"run", "-v", "--servers", servers, "--data", "ann", lockPath}, commandLine("wait")...)...)
	ready(t, holder, "command")
	p, url := beginBoard(t, servers)
	if got := bodyOf(t, fetch(t, "GET", url, "")); !strings.Contains(got, "<!doctype html>") {
		t.Errorf("the page is\n%s", got)
	}
	if got := bodyOf(t, fetch(t, "GET", url+"queues.json", "")); !strings.Contains(got, `"path":"/locks/run"`) || !strings.Contains(got, `"data":"ann"`) {
		t.Errorf("the locks are %s, want one of ann's", got)
	}
	if r := fetch(t, "GET", url, "", "Host", "evil.example:80"); r.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("for another host: %s, want 421", r.Status)
	}
	if r := fetch(t, "POST", url+"revoke", "{}"); r.StatusCode != http.StatusForbidden {
		t.Errorf("a revocation: %s, want 403", r.Status)
	}
	stream := bufio.NewReader(fetch(t, "GET", url+"events", "").Body)
	if line, err := stream.ReadString('\n'); !strings.HasPrefix(line, "data: ") {
		t.Errorf("the stream begins with %q (%v)", line, err)
	}
	p.Send(syscall.SIGTERM)
	p.Exits(0)
}

func TestBoardRevokesIfItIsAllowedTo(t *testing.T) {
	server := zktest.Start(t)
	holder := locked(t, server, []string{"--revocable"}, "wait")
	ready(t, holder, "command")
	_, url := beginBoard(t, server.Addr(), "--allow-revoke")
	var first struct {
		Board string
		Locks []struct{ ID string }
	}
	stream := bufio.NewReader(fetch(t, "GET", url+"events", "").Body)
	for len(first.Locks) == 0 {
		line, err := stream.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(data), &first); err != nil {
				t.Fatal(err)
			}
		}
	}
	body := `{"board":"` + first.Board + `","lock":"` + first.Locks[0].ID + `","grace_seconds":60}`
	if r := fetch(t, "POST", url+"revoke", body, "Content-Type", "application/json", "Sec-Fetch-Site", "cross-site"); r.StatusCode != http.StatusForbidden {
		t.Errorf("a revocation by another site: %s, want 403", r.Status)
	}
	if r := fetch(t, "POST", url+"revoke", body, "Content-Type", "application/json"); r.StatusCode != http.StatusNoContent {
		t.Errorf("a revocation: %s %s, want 204", r.Status, bodyOf(t, r))
	}
	holder.Exits(0)
}

func TestBoardRevokesOnThisMachineOnly(t *testing.T) {
	p := begin(t, "", "board", "--servers", "127.0.0.1:1", "--listen", "0.0.0.0:0", "--allow-revoke")
	p.Exits(codeFailed)
	p.Must(t, "want an address of this machine only")
}
