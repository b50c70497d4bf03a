"""The components `biomed_relations` and `biomed_document_relations`, and their scores."""
