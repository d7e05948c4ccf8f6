// Package figures provides what the benchmark programs share: statistics, result files,
// and the style of tables and plots.
package figures
