"""A distillation recipe that takes a second or two, and text for it."""

# With MobileBERT's objective, since `tiny_bert` has no language-model head.
RECIPE = """\
[paths]
text = null
teacher = null
output = null

[text]
paths = ${paths.text}
validation = 2

[teacher]
name = ${paths.teacher}

[student]
layers = 1

[objective]
name = "mobilebert"

[packing]
length = 32

[training]
batch = 4
steps = 2
learning_rate = 0.001
evaluate_every = 2
precision = "fp32"

[training.arguments]
use_cpu = true

[output]
directory = ${paths.output}
"""

SENTENCES = [
    "Aspirin reduced the risk of colorectal cancer in patients with diabetes.",
    "Mutations of BRCA1 and TP53 were found in breast and ovarian tumours.",
    "No metastasis was seen; paracetamol was given.",
    "Chemotherapy of lung cancer was stopped after nausea and vomiting in two patients.",
]
