// Package objects creates indices, data streams, templates, pipelines, scripts and policies on a target, and queries the existing
// ones. The package metadata, which sends no requests, determines the content of each object.
//
// Ensure creates indices and EnsureGlobals creates all other objects. Both create only missing objects, and repeat a request
// without the features that the target reports as unsupported. A Ledger records each object before and after the request, and a Mark
// in the object identifies the session that created it. DryRunCluster answers the same requests with the target's own simulation and
// writes nothing.
package objects
