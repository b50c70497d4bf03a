#!/usr/bin/env bash
# Test and measure the package on a machine with a GPU, in about 15 minutes, without the internet.
#
#   benchmarks/on_gpu.sh [--quick] [--dry-run] [--site ARCHIVE] [--output FOLDER] ENCODER [STEP ...]
#
# ENCODER is a BERT of six layers in Hugging Face layout, such as MiniLM. Steps, all of them by
# default: tests, quality, inference, annotating, training, pretraining. A step that fails does not stop the next.
# --site ARCHIVE (tar.xz): packages that this machine lacks. They and this package are installed in
#   a temporary folder.
# --output FOLDER (default build/on_gpu): logs with the tables, and the figures as JSON.
# --quick: few texts and steps, to test this script.
# --dry-run: the same on the CPU.
# The corpus is assets/ncbi_disease if it is there, else assets/starter_en.
set -uo pipefail
cd "$(dirname "$0")/.."

output=build/on_gpu site= quick= dry=
while [[ ${1-} == --* ]]; do
  case $1 in
    --quick) quick=1; shift ;;
    --dry-run) quick=1 dry=1; shift ;;
    --site) site=$(realpath "$2"); shift 2 ;;
    --output) output=$2; shift 2 ;;
    *) echo "on_gpu.sh: unknown option $1" >&2; exit 2 ;;
  esac
done
encoder=$(realpath "${1:?usage: on_gpu.sh [--quick] [--dry-run] [--site ARCHIVE] [--output FOLDER] ENCODER [STEP ...]}")
shift
steps=${*:-tests quality inference annotating training pretraining}
mkdir -p "$output"
output=$(realpath "$output")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
failed=()

# Run a command, with its output in a log of this name too.
log() {
  local name=$1 began=$SECONDS
  shift
  echo "+ $*"
  "$@" 2>&1 | tee "$output/$name.log"
  local status=${PIPESTATUS[0]}
  echo "$name: status $status, $((SECONDS - began)) s"
  ((status == 0)) || failed+=("$name")
}

if [[ $site ]]; then
  mkdir "$work/site"
  tar -xJf "$site" -C "$work/site" || exit 1
  export PYTHONPATH=$work/site
  # Copied, so that the build leaves nothing here.
  mkdir "$work/source"
  cp -r setup.cfg pyproject.toml README.md LICENSE spacy_biomed "$work/source"
  python3 -m pip install -q --no-deps --no-build-isolation --no-index --target "$work/site" \
    "$work/source" || exit 1
fi

# Half of the processors: some of them may share a core.
threads=$((($(nproc) + 1) / 2))
device=cuda gpu=0 few=()
if [[ $dry ]]; then
  device=cpu gpu=-1
  export SPACY_BIOMED_GPU_TESTS=cpu
else
  nvidia-smi | tee "$output/nvidia-smi.log"
fi

corpus=starter_en
[[ -d assets/ncbi_disease ]] && corpus=ncbi_disease
python3 -m spacy biomed convert "$corpus" "assets/$corpus" "$work/corpus/$corpus" >"$output/convert.log" ||
  exit 1

# Fine-tune on the GPU; the result must score the same on the GPU and on the CPU.
quality() {
  local epochs=${quick:+1}
  python3 -m spacy biomed init-config "$work/corpus/$corpus" "$work/config.cfg" --encoder "$encoder" \
    --epochs "${epochs:-8}" --batch-words 2000 --learn-rate 0.0005 &&
    python3 -m spacy biomed train "$work/config.cfg" --output "$work/training" --gpu-id $gpu \
      ${quick:+--vars.max_steps 20 --vars.eval_frequency 20} &&
    python3 -m spacy evaluate "$work/training/model-best" "$work/corpus/$corpus/test.spacy" \
      --output "$output/scores_gpu.json" --gpu-id $gpu &&
    python3 -m spacy evaluate "$work/training/model-best" "$work/corpus/$corpus/test.spacy" \
      --output "$output/scores_cpu.json"
}

# A pipeline that `quality` has trained, or the included one.
pipeline() {
  [[ -d $work/training/model-best ]] && echo "$work/training/model-best" || echo assets/pipelines/en_biomed_ner/trainable
}

# Words per second of `annotate` in several processes that share the card: TARGET PIPELINE STOCK.
annotating() {
  local few=(--documents 160000 --n-process 4 8 12)
  [[ $quick ]] && few=(--documents 200 --n-process 1 2 --shard-size 20)
  [[ -d $3 ]] && few+=(--stock "$3")
  python3 benchmarks/annotating.py "$2" "$work/corpus/$corpus/test.spacy" --gpu-id $gpu --on-device \
    --repeats 1 --target "$1" --output "$output/annotating_$1.json" "${few[@]}"
}

for step in $steps; do
  case $step in
    tests) log tests python3 -m pytest -n 0 -m gpu --durations=0 tests/test_gpu.py ;;
    quality) log quality quality ;;
    inference)
      [[ $quick ]] && few=(--limit 5 --document-limit 5 --base-limit 5 --repeats 1 ${dry:+--dry-run})
      log inference python3 benchmarks/inference.py "$(pipeline)" --device cuda \
        --corpora "$work/corpus" --trained-on "$corpus" --texts "$corpus" --base-limit 900 \
        --repeats 3 --threads $threads --work "$work/contestants" --output "$output/inference.json" \
        "${few[@]}"
      ;;
    annotating)
      # After `inference`, which makes the pipelines with a base encoder and stock's.
      log annotating_small annotating 500000 "$(pipeline)" "$work/contestants/stock"
      base=$work/contestants/BERT-base
      [[ -d $base/pytorch ]] && log annotating_base annotating 350000 "$base/pytorch" "$base/stock"
      ;;
    training)
      [[ $quick ]] && few=(--steps 2 --repeats 1 --batch-size 8)
      log training python3 benchmarks/training.py "$work/corpus/$corpus" "$encoder" --device $device \
        --repeats 3 --threads $threads --output "$output/training.json" "${few[@]}"
      ;;
    pretraining)
      [[ $quick ]] && few=(--steps 1 --repeats 1 --batch 8 --device-batch 8 --documents 40)
      python3 -c 'import sys
from spacy_biomed.formats.spacy_docs import read_docs
from spacy.vocab import Vocab
for doc in read_docs(sys.argv[1], Vocab()):
    print(" ".join(doc.text.split()))' "$work/corpus/$corpus/train.spacy" >"$work/text.txt"
      log pretraining python3 benchmarks/pretraining.py configs/language_models/starter_en.cfg \
        "$work/text.txt" --device $device --repeats 3 --threads $threads \
        --output "$output/pretraining.json" "${few[@]}"
      ;;
    *) echo "on_gpu.sh: no step $step" >&2; exit 2 ;;
  esac
done
if ((${#failed[@]})); then
  echo "failed: ${failed[*]}" >&2
  exit 1
fi
