"""From client records to differentially private weights: sharing, engines, outputs, post-processing."""
