package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
	"github.com/zkgrant/zkgrant/bench/internal/goldentest"
	"github.com/zkgrant/zkgrant/bench/peers"
)

// sample is what a run without kazoo might have measured.
func sample() *Results {
	r := &Results{
		Rounds: 3, Cores: 2, RAMDisk: true,
		Versions: map[string]string{"ZooKeeper": "3.8.0", "etcd": "3.4.23"},
		LeftOut:  map[string]string{keyKazoo: reason(peers.ErrNoKazoo)},
	}
	for _, l := range libraries() {
		if l.Key == keyKazoo {
			continue
		}
		m := Measured{library: l, Rounds: make(map[string][]float64)}
		factor := map[string]float64{keyOurs: 1, keyStock: 2.5, keyCurator: 2, keyEtcd: 1.5, keyBare: 0.9}[l.Key]
		for _, spread := range []float64{1.2, 0.7, 1} {
			m.note(figureCycle, 100*factor*spread)
			for i, queue := range []int{20, 100, 1000, 10_000} {
				if queue <= l.crowd {
					m.note(figureHandoff(queue), 200*factor*spread*float64(i+1))
					m.note(figureBytes(queue), 400*factor)
				}
			}
		}
		if l.Key != keyBare {
			m.note(figureMemory, 1000*factor)
		}
		if l.Key == keyOurs {
			m.note(figureAwaited, 187.5)
			m.note(figureGoroutines, 0)
			m.note(figureExpire, 50.04)
			m.note(figureWakeUps(1000), 2)
		}
		r.Libraries = append(r.Libraries, m)
	}
	return r
}

// sampleFar is what a run without kazoo might have measured by distance: ours costs 1 round trip, zk.Lock 3 or more.
func sampleFar() *Distance {
	s := &Distance{Results: *sample(), Echo: make(map[int][]float64)}
	for i := range s.Libraries {
		m := &s.Libraries[i]
		m.Rounds = make(map[string][]float64)
		trips := map[string]float64{keyOurs: 1, keyStock: 3, keyCurator: 24, keyEtcd: 2, keyBare: 2}[m.Key]
		for _, place := range placesFar() {
			for _, e := range errands() {
				for _, ms := range distances() {
					if e.offered(m.Key) {
						m.note(figureFar(place.key, e.key, ms), 200+trips*(100+1010*float64(ms)))
					}
				}
			}
		}
	}
	for _, ms := range distances() {
		s.Echo[ms] = []float64{90 + 1010*float64(ms), 120 + 1010*float64(ms), 100 + 1010*float64(ms)}
	}
	return s
}

// sampleCached is what a run without kazoo might have measured of cached locks.
func sampleCached() *Cached {
	s := &Cached{*sample()}
	s.Libraries = append([]Measured{{library: cachedLibraries()[0]}}, s.Libraries[:len(s.Libraries)-1]...)
	for i := range s.Libraries {
		m := &s.Libraries[i]
		m.Rounds = make(map[string][]float64)
		factor := map[string]float64{keyCached: 1, keyOurs: 50, keyStock: 100, keyCurator: 110, keyEtcd: 75}[m.Key]
		m.note(figureCycle, 4.2*factor)
		if m.Key == keyOurs {
			m.note(figureCross(1), 800)
		}
		if m.Key != keyOurs && m.Key != keyCached {
			continue
		}
		for i, run := range runs() {
			m.note(figureTurns(run), 300+10*factor/float64(i+1))
		}
	}
	m := &s.Libraries[0]
	m.note(figureRequests, 0)
	m.note(figureAllocs(1), 12)
	m.note(figureArrival(0), 1500)
	m.note(figureLongest(busy), 51_600)
	m.note(figureRate(busy), 250_000)
	return s
}

// rendered returns the page and the plots of the results in a folder.
func rendered(t *testing.T, folder string) string {
	t.Helper()
	var b strings.Builder
	if err := render(folder, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTheCommittedPageIsOfTheCommittedResults: go run ./locks -draw writes it and the plots.
func TestTheCommittedPageIsOfTheCommittedResults(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, p := range parts() {
		text, err := os.ReadFile(filepath.Join("..", p.file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, p.file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goldentest.Compare(t, filepath.Join("..", "RESULTS.md"), rendered(t, folder))
	plots, err := filepath.Glob(filepath.Join(folder, "*.svg"))
	if err != nil || len(plots) < 6 {
		t.Fatalf("the plots are %q, %v; want 6 or more", plots, err)
	}
	for _, plot := range plots {
		text, err := os.ReadFile(plot)
		if err != nil {
			t.Fatal(err)
		}
		goldentest.Compare(t, filepath.Join("..", filepath.Base(plot)), string(text))
	}
}

// TestAPageSaysWhatIsMissing: a library that was not there, figures that were not measured, a goal that was missed, and other parts.
func TestAPageSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	page := func(of section) string {
		folder := t.TempDir()
		for _, p := range parts() {
			if reflect.TypeOf(p.results) == reflect.TypeOf(of) {
				if err := figures.Store(filepath.Join(folder, p.file), of); err != nil {
					t.Fatal(err)
				}
			}
		}
		return rendered(t, folder)
	}
	for text, wants := range map[string][]string{
		page(sample()): {
			"- **without kazoo**: it was not there; bench/deps fetches it",
			"| uncontended cycle ÷ zk.Lock | ≤ 0.45 | 0.400 | reached |",
			"| uncontended cycle ÷ Curator | ≤ 0.45 | 0.500 | missed |",
			"| uncontended cycle ÷ kazoo | ≤ 0.25 | – | not measured |",
		},
		page(sampleFar()): {
			"- **without kazoo**: it was not there; bench/deps fetches it",
			"| standalone server: acquire and release | 1.0 | 3.0 | 24.0 | 2.0 | 2.0 |",
			"| standalone server: acquire and release, awaited | 1.0 | – | – | – | – |",
		},
		page(sampleCached()): {"- **without kazoo**: it was not there; bench/deps fetches it"},
	} {
		for _, want := range wants {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("want %q in\n%s", want, text)
			}
		}
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Count(text, "\n## ") > 2 {
			t.Errorf("what was not measured is in\n%s", text)
		}
	}
}

func TestEmptyResults(t *testing.T) {
	t.Parallel()
	for _, p := range parts() {
		if err := errors.Join(p.results.write(io.Discard), p.results.draw(t.TempDir())); err != nil {
			t.Errorf("%s: %v", p.file, err)
		}
	}
}

func TestResultsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "results.json")
	r := sample()
	if err := figures.Store(file, r); err != nil {
		t.Fatal(err)
	}
	got := new(Results)
	if err := figures.Load(file, got); err != nil {
		t.Fatal(err)
	}
	for i := range r.Libraries { // the longest queue is no result
		r.Libraries[i].crowd = 0
	}
	if !reflect.DeepEqual(got, r) {
		t.Errorf("read %+v, want %+v", got, r)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := figures.Load(file, got); err == nil {
		t.Error("loading half a file: no error")
	}
}

func TestReason(t *testing.T) {
	t.Parallel()
	for _, missing := range []error{peers.ErrNotFound, peers.ErrNoKazoo, peers.ErrNoEtcd} {
		if got := reason(missing); !strings.Contains(got, "bench/deps") {
			t.Errorf("reason(%v) = %q, want what fetches it", missing, got)
		}
	}
	if got := reason(errors.New("compiling in /home/me: no")); strings.Contains(got, "/home") {
		t.Errorf("reason = %q, want no path of the machine", got)
	}
}
