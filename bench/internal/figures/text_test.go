package figures

import "testing"

func TestNumbers(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]float64{"0": 0, "2": 2, "0.45": 0.45, "1.30": 1.3, "12.3": 12.34, "1235": 1234.5} {
		if got := Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
}
