package secret_test

import (
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/secret"
)

func TestEnvironment_HoldsNoCredentials(t *testing.T) {
	got := secret.Environment([]string{"PATH=/bin", "HOME=/root", "LC_ALL=C", "TZ=UTC", "AWS_SECRET_ACCESS_KEY=x", "RFS_TARGET_PASSWORD=x", "NOTIFY_SOCKET=/n",
		"GITHUB_TOKEN=x", "PATHX=x", "https_proxy=http://u:p@h", "LD_PRELOAD=x", "odd"})
	if want := []string{"PATH=/bin", "HOME=/root", "LC_ALL=C", "TZ=UTC"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
