package export

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/base/retry"
)

// KeepsTheContract runs the contract on stores that open returns, each of which is empty. The objects have one body.
func KeepsTheContract(t *testing.T, open func(t *testing.T) Store, policy retry.Policy) {
	t.Helper()
	keepsTheContract(t, func(t *testing.T) home { return bucketHome{open(t), 1, policy} })
}
