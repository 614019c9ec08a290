package signer

import "testing"

// SetEnvironment gives this process credentials of AWS and a region until the test ends, and nothing else of AWS: no files, no
// metadata of an instance, no other endpoint.
func SetEnvironment(t testing.TB, region, id, secret string) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": id, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_REGION": region,
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true", "AWS_ENDPOINT_URL": "",
	} {
		t.Setenv(name, value)
	}
}
