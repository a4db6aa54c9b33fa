"""π_ROC: noisy score curves per group, and thresholds that treat groups alike."""
