package e2e

import (
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/signer"
)

// TestAMigrationGoesThroughADoorThatVerifiesSignatures lets nothing reach the cluster that is not
// signed rightly: documents, indices and the state of the work, compressed and not.
func TestAMigrationGoesThroughADoorThatVerifiesSignatures(t *testing.T) {
	const region, role, id, secret = "eu-west-1", "arn:aws:iam::123456789012:role/writer", "AKIDCANARY", "canary-of-the-secret"
	n := cluster.OpenSearch(t, targets[0])
	to, err := url.Parse(n.URL)
	must(t, err)
	door := &signer.Verifier{Region: region, Service: "es"}
	server := httptest.NewServer(door.Handler(signer.Forward(to)))
	t.Cleanup(server.Close)
	roles := &signer.Roles{Verifier: &signer.Verifier{Region: region, Service: "sts"}, ARNs: []string{role}, Grant: []*signer.Verifier{door}}
	roles.Verifier.Add(id, signer.Key{Secret: secret})
	sts := httptest.NewServer(roles.Handler())
	t.Cleanup(sts.Close)

	repo, none := demoRepo(), filepath.Join(t.TempDir(), "none")
	env := []string{"AWS_ACCESS_KEY_ID=" + id, "AWS_SECRET_ACCESS_KEY=" + secret, "AWS_SESSION_TOKEN=", "AWS_PROFILE=", "AWS_REGION=",
		"AWS_CONFIG_FILE=" + none, "AWS_SHARED_CREDENTIALS_FILE=" + none, "AWS_EC2_METADATA_DISABLED=true", "AWS_ENDPOINT_URL_STS=" + sts.URL}
	run := func(dir string, more ...string) Result {
		args := append([]string{"migrate", "--repo-uri", repo, "--snapshot-name", listSnapshots(t, repo)[0].Name, "--target-host", server.URL, "--output", "json",
			"--log-level", "debug", "--target-aws-sigv4"}, more...)
		r := RunIn(t, dir, env, "rfsd", args...)
		var said strings.Builder
		said.WriteString(r.Stdout + r.Stderr)
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			said.Write(b)
			return err
		})
		must(t, err)
		if strings.Contains(said.String(), secret) {
			t.Errorf("%v: the secret is told", more)
		}
		return r
	}
	for _, more := range [][]string{{"--target-aws-region", region}, {"--target-aws-region", region, "--target-aws-role-arn", role}} {
		wipe(t, n)
		if len(more) == 2 {
			door.Add(id, signer.Key{Secret: secret})
		} else {
			door.Remove(id)
		}
		r := run(t.TempDir(), more...)
		if r.Code != 0 {
			t.Fatalf("%v: exit %d: %s%s", more, r.Code, r.Stderr, r.Stdout)
		}
		parseSummary(t, r)
		compareLanded(t, n, repo)
	}
	if roles.Given() == 0 {
		t.Error("no role was assumed")
	}
	for _, c := range []struct {
		words string
		known bool // the door knows the key
		more  []string
	}{
		{"state the AWS region", true, []string{"--target-aws-region", "us-east-1"}},
		{"can only be a target", true, []string{"--target-aws-region", region, "--target-aws-service", "aoss"}},
		{"check the access key", false, []string{"--target-aws-region", region}},
	} {
		if door.Remove(id); c.known {
			door.Add(id, signer.Key{Secret: secret})
		}
		if r := run(t.TempDir(), c.more...); r.Code == 0 || !strings.Contains(r.Stderr, c.words) {
			t.Errorf("%v: exit %d: %s", c.more, r.Code, r.Stderr)
		}
	}
}
