package zkprom

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// program returns the path of prometheus or promtool: in PROMETHEUS_HOME if that is set,
// else on PATH, else in the project's .deps.
func program(name string) (string, error) {
	home := os.Getenv("PROMETHEUS_HOME")
	if home == "" {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
		deps, err := ensemble.Deps()
		if err != nil {
			return "", err
		}
		home = filepath.Join(deps, "prometheus")
	}
	path, err := exec.LookPath(filepath.Join(home, name))
	if err != nil {
		err = fmt.Errorf("run bench/deps, or set PROMETHEUS_HOME: %w", err)
	}
	return path, err
}

// installed returns the path of the program. If it is missing, installed skips the test,
// or fails it if real servers were requested.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := program(name)
	if err != nil && os.Getenv("ZKGRANT_REAL") == "1" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	return path
}

// scraper is a real Prometheus that scrapes a page. It listens on 127.0.0.1 and ends with
// the test.
type scraper struct{ addr string }

// scraped starts a Prometheus that scrapes the page five times a second, or returns nil
// if there is none.
func scraped(t *testing.T, page string) *scraper {
	t.Helper()
	path, err := program("prometheus")
	if err != nil {
		return nil
	}
	rules, err := filepath.Abs("rules.yml")
	eventstest.Must(t, err)
	const config = "global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}\n" +
		"rule_files: [%q]\nscrape_configs: [{job_name: app, static_configs: [{targets: [%q]}]}]\n"
	folder := t.TempDir()
	file := filepath.Join(folder, "prometheus.yml")
	eventstest.Must(t, os.WriteFile(file, fmt.Appendf(nil, config, rules, page), 0o600))
	const attempts = 3 // another program may take the port first
	for n := range attempts {
		port, err := ensemble.FreePort()
		eventstest.Must(t, err)
		s := &scraper{fmt.Sprint("127.0.0.1:", port)}
		cmd := exec.Command(path, "--config.file="+file, "--web.listen-address="+s.addr, "--log.level=warn",
			fmt.Sprintf("--storage.tsdb.path=%s/data%d", folder, n))
		ensemble.DieWithParent(cmd)
		p := eventstest.Begin(t, cmd)
		ready := false
		eventstest.Eventually(t, "Prometheus is ready", func() bool {
			_, err := s.get("/-/ready", nil)
			ready = err == nil
			return ready || p.Count("address already in use") > 0
		}, p.String)
		if ready {
			return s
		}
	}
	t.Fatalf("the port was taken %d times", attempts)
	return nil
}

// answers reports whether the expression has had a numeric value since then.
func (s *scraper) answers(expr string, since time.Time) (bool, error) {
	text, err := s.get("/api/v1/query_range", url.Values{
		"query": {expr}, "start": {since.Format(time.RFC3339Nano)}, "end": {time.Now().Format(time.RFC3339Nano)}, "step": {"1s"},
	})
	if err != nil {
		return false, err
	}
	var answer struct {
		Data struct {
			Result []struct{ Values [][2]any } // seconds, "value"
		}
	}
	err = json.Unmarshal([]byte(text), &answer)
	for _, series := range answer.Data.Result {
		if slices.ContainsFunc(series.Values, func(value [2]any) bool { return value[1] != "NaN" }) {
			return true, err
		}
	}
	return false, err
}

func (s *scraper) get(path string, query url.Values) (string, error) {
	return get("http://" + s.addr + path + "?" + query.Encode())
}
