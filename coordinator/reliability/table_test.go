package reliability

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFiguresReachTheTable(t *testing.T) {
	name := filepath.Join(t.TempDir(), "figures")
	t.Setenv(FileVariable, name)
	Report(t, RowMuteServer, "0.31 T at most, %d trials", 20)
	Report(t, RowPartition, "first")
	Report(t, RowPartition, "second | in a field")

	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	figures, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	table := Table(figures)
	for _, want := range []string{
		"| at most T/3 | 0.31 T at most, 20 trials | TestFiguresReachTheTable |\n",
		`| first<br>second \| in a field | TestFiguresReachTheTable |` + "\n",
		"| 0 | **not measured** |  |\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in\n%s", want, table)
		}
	}
}

func TestEveryRowIsDescribed(t *testing.T) {
	for _, row := range Rows() {
		text, err := row.MarshalText()
		if err != nil || row.Property() == "" || row.Goal() == "" {
			t.Errorf("row %d: %q, %q, %v", row, row.Property(), row.Goal(), err)
		}
		var back Row
		if err := back.UnmarshalText(text); err != nil || back != row {
			t.Errorf("%q is read as %v, %v", text, back, err)
		}
	}
	if _, err := Read(strings.NewReader(`{"row":"none","test":"","text":""}`)); err == nil {
		t.Error("a row that does not exist was read")
	}
}

func TestTrials(t *testing.T) {
	for _, at := range []struct {
		full, measure string
		want          int
	}{{"", "", 3}, {"1", "", 20}, {"", "1", 200}, {"1", "1", 200}} {
		t.Setenv("ZKGRANT_FULL", at.full)
		t.Setenv(MeasureVariable, at.measure)
		if n := Trials(3, 20, 200); n != at.want {
			t.Errorf("ZKGRANT_FULL=%s %s=%s: %d trials, want %d", at.full, MeasureVariable, at.measure, n, at.want)
		}
	}
}
