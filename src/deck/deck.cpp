#include "deck/deck.hpp"

#include "deck/keys.hpp"
#include "deck/read.hpp"

#include <fmt/format.h>

namespace adaptra::deck {

std::string write_deck(const Deck& deck) {
  std::string text;
  for (const auto& section : sections()) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section.name);
    for (const auto& key : keys()) {
      if (key.section == section.name) {
        text += fmt::format("{} = {}\n", key.name, to_toml(key.get(deck)));
      }
    }
  }
  return text;
}

}  // namespace adaptra::deck
