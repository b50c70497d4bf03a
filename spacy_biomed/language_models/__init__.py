"""Text cleaning, vocabularies, and the pretraining and distillation of encoders."""
