"""The measures: how a run of each case shows its mistake in numbers, and shows it gone."""
