//go:build !race

package schedules

// How many schedules are played.
const quickSchedules, fullSchedules = 500, 10_000

// frames is how many frames of a few cycles meet with a mishap. At full length all of them do.
const frames, noSample = 12, true
