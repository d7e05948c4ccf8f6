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
