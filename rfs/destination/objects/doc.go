// Package objects creates indices, data streams, templates, pipelines, scripts and policies on a target, and asks the target what it
// has. What each object contains is decided by metadata, which sends no requests.
//
// Ensure creates indices and EnsureGlobals creates everything else. Both create only what is missing, and offer an object again
// without the features that the target reports as unsupported. A Ledger records each object before and after the request, and a Mark
// in the object shows which session created it. DryRunCluster answers the same requests by the target's own simulation and writes
// nothing.
package objects
