#pragma once
// Reads decks. All problems of a deck are collected and reported at once, each as
//   file:line: section.key = value: problem (why it matters); suggestion
// in one Error{usage}. A value that is present but wrong is never replaced by a default.

#include "deck/deck.hpp"

#include <string>
#include <vector>

namespace adaptra::deck {

/// Reads a deck file and applies overrides "section.key=value". Throws Error{usage} with all
/// problems, or where the file cannot be read.
Deck read_deck(const std::string& path, const std::vector<std::string>& overrides = {});

/// The same, from text; `name` stands for the file in messages.
Deck parse_deck(const std::string& text, const std::string& name,
                const std::vector<std::string>& overrides = {});

/// A deck with every key, that reads back to the same values.
std::string write_deck(const Deck& deck);

}  // namespace adaptra::deck
