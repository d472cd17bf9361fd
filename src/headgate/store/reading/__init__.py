"""What people look at: lists, gates, forecasts, charts, statistics."""
