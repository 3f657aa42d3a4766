#pragma once
// The table of all keys: the one place where a key is named, typed, bounded and explained. The
// reader, the writer and the reference page work from it; a new key is a member in deck.hpp and a
// row in keys.cpp.

#include "deck/deck.hpp"

#include <functional>
#include <limits>
#include <string>
#include <variant>
#include <vector>

namespace adaptra::deck {

using Value = std::variant<std::int64_t, double, bool, std::string, std::vector<std::string>>;

struct Key {
  std::string section;
  std::string name;
  std::string doc;  ///< one line, for a person
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  ///< allowed texts; empty: any
  std::function<Value(const Deck&)> get;  ///< its alternative is the key's type
  std::function<void(Deck&, Value)> set;

  std::string full_name() const { return section + "." + name; }
  Value default_value() const { return get(Deck{}); }
  std::string type_name() const;   ///< "integer", "float", "text", "true or false", "list of texts"
  std::string range_text() const;  ///< "1 to 1000", "at least 0", "fp32 | bf16", ""
};

const std::vector<Key>& keys();

/// The key with this full name, or nullptr.
const Key* find_key(const std::string& full_name);

/// A value as TOML.
std::string to_toml(const Value& value);

/// All sections in order, and what each is for.
struct Section {
  std::string name;
  std::string doc;
};
const std::vector<Section>& sections();

/// docs/deck_reference.md.
std::string reference_page();

}  // namespace adaptra::deck
