package worker

import "github.com/rfsd/rfsd/rfs/progress"

// Quiet tells when no request of this migration can reach the target any more.
type Quiet = progress.WriteBarrier
