"""What a Doc carries: its layers, their extension attributes and what they mean."""
