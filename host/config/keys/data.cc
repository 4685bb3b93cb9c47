// Keys of [data].
#include "config/run_config.h"

namespace lamina::config {

const Fields<DataSection>& data_fields() {
  static const Fields<DataSection> fields = {
      field(
          "train", &DataSection::train,
          {.doc = "Training text: files, folders or globs, eg: train = [\"corpus.txt\"]. A folder "
                  "means every file below it; names that begin with a dot are skipped.",
           .required = true,
           .hot = true,
           .path = true}),
      field(
          "weights", &DataSection::weights,
          {.min = 0,
           .min_excluded = true,
           .doc = "Share of training rows from each entry of data.train, eg: [3, 1]. Each entry is "
                  "repeated independently. Without weights every row is used once per epoch."}),
      field("validation", &DataSection::validation,
            {.doc = "Text for the validation loss: files, folders or globs.",
             .hot = true,
             .path = true}),
      field("validation_fraction", &DataSection::validation_fraction,
            {.min = 0,
             .max = 1,
             .max_excluded = true,
             .doc = "Fraction of the training text, taken from its end, that is held out for "
                    "validation."}),
      field("form", &DataSection::form,
            {.choices = {"text", "jsonl", "chat", "preference", "tokens"},
             .doc = "Format of the files: text; JSON objects with a text, one per line; JSON "
                    "objects with conversations, or with pairs of answers, rendered with the "
                    "model's chat template; or tokens written by llm.c, nanoGPT or Megatron. Files "
                    "named .gz or .zst are unpacked. docs/data.md describes all forms."}),
      field("field", &DataSection::field,
            {.doc = "The member of each object that contains its text, with form = \"jsonl\".",
             .only_for = Requirement{"data.form", {"jsonl"}}}),
      field("loss_on", &DataSection::loss_on,
            {.choices = {"assistant", "last", "all"},
             .doc = "With form = \"chat\": the text that the loss covers, which is every answer, "
                    "the last answer of each conversation, or the whole conversation.",
             .only_for = Requirement{"data.form", {"chat"}}}),
      field(
          "thinking", &DataSection::thinking,
          {.choices = {"keep", "drop"},
           .doc = "With form = \"chat\" and \"preference\": how reasoning in assistant messages is "
                  "handled: passed to the template, or removed and turned off in the template.",
           .only_for = Requirement{"data.form", {"chat", "preference"}}}),
      field("chat_template", &DataSection::chat_template,
            {.preset_text = "the one in data.tokenizer's directory",
             .doc = "A file with the chat template for form = \"chat\" and \"preference\".",
             .path = true,
             .only_for = Requirement{"data.form", {"chat", "preference"}}}),
      field(
          "bad_records", &DataSection::bad_records,
          {.choices = {"stop", "skip"},
           .doc = "How to handle a line that is not a valid record: fail before the run begins, or "
                  "skip it and count it.",
           .only_for = Requirement{"data.form", {"jsonl", "chat", "preference"}}}),
      field(
          "store", &DataSection::store,
          {.preset_text = "tokens, beside the run directory",
           .doc = "Folder for the token store. Runs on the same files with the same tokenizer map "
                  "the stored tokens instead of tokenizing again; \"none\" keeps tokens in memory. "
                  "lamina never removes files from it; all of them can be deleted.",
           .hot = true,
           .path = true,
           .path_words = {"none"}}),
      field("tokenizer", &DataSection::tokenizer,
            {.preset_text = "train.from, else \"byte\"",
             .doc = "\"byte\" (one token per byte), or a directory with a tokenizer, such as a "
                    "tokenizer.json; docs/tokenizers.md lists the files.",
             .path = true,
             .path_words = {"byte"}}),
      field("sequence_length", &DataSection::sequence_length,
            {.unit = "tokens", .min = 1, .max = 1 << 24, .doc = "Tokens in each training row."}),
      field(
          "document_separator", &DataSection::document_separator,
          {.choices = {"file", "blank_line", "line"},
           .doc =
               "End of a document with form = \"text\": the end of a file, an empty line, or every "
               "line.",
           .only_for = Requirement{"data.form", {"text"}}}),
      field("pack", &DataSection::pack,
            {.doc = "Pack several documents into one row. Attention never crosses documents. "
                    "Conversations are kept whole; one that is longer than a row is cut."}),
      field("shuffle", &DataSection::shuffle,
            {.doc = "Visit the rows in a new random order in each epoch."}),
      field("shuffle_documents", &DataSection::shuffle_documents,
            {.doc = "Shuffle the documents of each source by run.seed before they are packed into "
                    "rows, so that neighbours in a file are not neighbours in a row. The rows are "
                    "then the same in all epochs. data.validation is not shuffled."}),
  };
  return fields;
}

}  // namespace lamina::config
