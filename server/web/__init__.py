"""The web server of people: an inbox in the browser and a JSON API, over `Runs`. `holdfast serve` runs it."""
