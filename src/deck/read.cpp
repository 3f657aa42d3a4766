#include "deck/read.hpp"

#include "core/error.hpp"
#include "core/text.hpp"
#include "deck/keys.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

namespace adaptra::deck {
namespace {

/// Collects problems and remembers where each key was set.
class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  void read_text(std::string text);
  void read_override(const std::string& argument);
  void check_rules();
  Deck finish();

 private:
  void read_table(const toml::table& table);
  void read_key(const std::string& full_name, const toml::node& node, const std::string& where);
  std::optional<Value> convert(const Key& key, const toml::node& node, std::string& problem) const;
  void unknown(const std::string& full_name, const std::string& where);
  void add(const std::string& text) { problems_.push_back(text); }
  // "deck.toml:7: model.layers = 3"
  std::string place(const std::string& full_name) const;
  std::string line_of(const toml::node& node) const {
    return fmt::format("{}:{}", name_, node.source().begin.line);
  }

  std::string name_;
  Deck deck_;
  std::vector<std::string> problems_;
  std::map<std::string, std::string> set_at_;
};

std::string text_of(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

std::optional<Value> Reader::convert(const Key& key, const toml::node& node,
                                     std::string& problem) const {
  switch (key.default_value().index()) {
    case 0:
      if (node.is_integer()) return Value(node.ref<std::int64_t>());
      break;
    case 1:
      if (node.is_floating_point()) return Value(node.ref<double>());
      if (node.is_integer()) return Value(static_cast<double>(node.ref<std::int64_t>()));
      break;
    case 2:
      if (node.is_boolean()) return Value(node.ref<bool>());
      break;
    case 3:
      if (node.is_string()) return Value(node.ref<std::string>());
      break;
    default: {
      if (node.is_string()) return Value(std::vector{node.ref<std::string>()});
      if (const auto* array = node.as_array()) {
        std::vector<std::string> list;
        for (const auto& entry : *array) {
          if (!entry.is_string()) {
            problem = "every entry must be a text in quotes";
            return std::nullopt;
          }
          list.push_back(entry.ref<std::string>());
        }
        return Value(std::move(list));
      }
    }
  }
  problem = fmt::format(
      "must be {} {}",
      key.type_name() == "integer" ? "an" : (key.type_name() == "true or false" ? "" : "a"),
      key.type_name());
  return std::nullopt;
}

void Reader::unknown(const std::string& full_name, const std::string& where) {
  const auto dot = full_name.find('.');
  const std::string section = full_name.substr(0, dot);
  std::vector<std::string> known;
  bool section_known = false;
  for (const auto& key : keys()) {
    known.push_back(key.full_name());
    section_known = section_known || key.section == section;
  }
  std::string nearest = nearest_name(full_name, known);
  if (nearest.empty() && dot != std::string::npos) {
    // A right key in a wrong section is the other common slip.
    for (const auto& key : keys()) {
      if (key.name == full_name.substr(dot + 1)) nearest = key.full_name();
    }
  }
  std::string help = nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
  if (!section_known && nearest.empty()) {
    std::vector<std::string> names;
    for (const auto& s : sections()) names.push_back(s.name);
    const auto near = nearest_name(section, names);
    help = near.empty() ? fmt::format("; sections are {}", fmt::join(names, ", "))
                        : fmt::format("; did you mean [{}]?", near);
  }
  add(fmt::format("{}: {}: unknown key (it would be ignored){}", where, full_name, help));
}

void Reader::read_key(const std::string& full_name, const toml::node& node,
                      const std::string& where) {
  const Key* key = find_key(full_name);
  if (key == nullptr) {
    unknown(full_name, where);
    return;
  }
  set_at_[full_name] = where;
  const std::string place = fmt::format("{}: {} = {}", where, full_name, text_of(node));
  std::string problem;
  auto value = convert(*key, node, problem);
  if (!value) {
    add(fmt::format("{}: {}; default: {}", place, problem, to_toml(key->default_value())));
    return;
  }
  double number = 0;
  if (const auto* integer = std::get_if<std::int64_t>(&*value))
    number = static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&*value)) number = *real;
  if (!(number >= key->minimum && number <= key->maximum) && value->index() <= 1) {
    add(fmt::format("{}: out of range; allowed: {} ({})", place, key->range_text(), key->doc));
    return;
  }
  if (const auto* text = std::get_if<std::string>(&*value);
      text != nullptr && !key->choices.empty() &&
      std::find(key->choices.begin(), key->choices.end(), *text) == key->choices.end()) {
    const auto nearest = nearest_name(*text, key->choices);
    add(fmt::format("{}: not one of {}{}", place, key->range_text(),
                    nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest)));
    return;
  }
  key->set(deck_, std::move(*value));
}

void Reader::read_table(const toml::table& table) {
  for (const auto& [section, node] : table) {
    const std::string name(section.str());
    const auto* inner = node.as_table();
    if (inner == nullptr) {
      unknown(name, line_of(node));
      continue;
    }
    if (inner->empty()) {
      std::set<std::string> names;
      for (const auto& s : sections()) names.insert(s.name);
      if (names.count(name) == 0) unknown(name, line_of(node));
    }
    for (const auto& [key, value] : *inner) {
      read_key(name + "." + std::string(key.str()), value, line_of(value));
    }
  }
}

void Reader::read_text(std::string text) {
  if (text.rfind("\xEF\xBB\xBF", 0) == 0) text.erase(0, 3);
  try {
    read_table(toml::parse(text));
  } catch (const toml::parse_error& error) {
    add(fmt::format("{}:{}: not valid TOML: {}", name_, error.source().begin.line,
                    std::string(error.description())));
  }
}

void Reader::read_override(const std::string& argument) {
  const auto equals = argument.find('=');
  const std::string where = "command line";
  if (equals == std::string::npos || argument.find('.') > equals) {
    add(fmt::format("{}: '{}': not of the form section.key=value", where, argument));
    return;
  }
  const std::string name = argument.substr(0, equals), text = argument.substr(equals + 1);
  toml::table parsed;
  try {
    parsed = toml::parse("value = " + text);
  } catch (const toml::parse_error&) {
    parsed.clear();  // not TOML: a bare text, as the shell left it
  }
  const bool one_value = parsed.size() == 1 && parsed.contains("value");
  if (const Key* key = find_key(name);
      !one_value ||
      (key != nullptr && key->default_value().index() == 3 && !parsed["value"].is_string())) {
    parsed = toml::table{{"value", text}};
  }
  read_key(name, *parsed.get("value"), where);
}

std::string Reader::place(const std::string& full_name) const {
  const auto found = set_at_.find(full_name);
  return fmt::format("{}: {} = {}", found == set_at_.end() ? name_ + " (default)" : found->second,
                     full_name, to_toml(find_key(full_name)->get(deck_)));
}

// What keys must be to each other.
void Reader::check_rules() {
  const Deck& d = deck_;
  if (d.model.channels % d.model.heads != 0) {
    add(fmt::format("{}: not a multiple of model.heads = {} (every head has as many channels)",
                    place("model.channels"), d.model.heads));
  }
  if (d.training.sequence_tokens > d.model.context_tokens) {
    add(fmt::format("{}: longer than model.context_tokens = {} (there is no position for the rest)",
                    place("training.sequence_tokens"), d.model.context_tokens));
  }
  if (d.model.layers < d.parallel.pipeline) {
    add(fmt::format("{}: more stages than model.layers = {}; every stage needs at least one layer",
                    place("parallel.pipeline"), d.model.layers));
  }
  if (d.data.kind == "text" && d.model.vocabulary < 256) {
    add(fmt::format("{}: data.kind = \"text\" gives bytes; at least 256 is needed",
                    place("model.vocabulary")));
  }
  if (d.data.train.empty()) {
    add(fmt::format("{}: no training data; name files or folders", place("data.train")));
  }
  if (d.evaluation.every_steps > 0 && d.data.validation.empty()) {
    add(fmt::format("{}: data.validation is empty; name the files to evaluate on, or set it to 0",
                    place("evaluation.every_steps")));
  }
  if (d.training.minimum_learning_rate > d.training.learning_rate) {
    add(fmt::format("{}: above training.learning_rate = {:g}",
                    place("training.minimum_learning_rate"), d.training.learning_rate));
  }
  if (d.training.decay_steps > 0 && d.training.warmup_steps > d.training.decay_steps) {
    add(fmt::format(
        "{}: beyond training.decay_steps = {} (the rate would fall before it has risen)",
        place("training.warmup_steps"), d.training.decay_steps));
  }
  auto axes = d.parallel.order;
  std::sort(axes.begin(), axes.end());
  if (axes != std::vector<std::string>{"data", "pipeline", "tensor"}) {
    add(fmt::format("{}: must name \"data\", \"pipeline\" and \"tensor\" once each",
                    place("parallel.order")));
  }
}

Deck Reader::finish() {
  // The rules speak of values; with a value already refused they could mislead.
  if (problems_.empty()) check_rules();
  if (problems_.empty()) return deck_;
  throw Error(ExitCode::usage, fmt::format("{}", fmt::join(problems_, "\n")));
}

}  // namespace

Deck parse_deck(const std::string& text, const std::string& name,
                const std::vector<std::string>& overrides) {
  Reader reader(name);
  reader.read_text(text);
  for (const auto& argument : overrides) reader.read_override(argument);
  return reader.finish();
}

Deck read_deck(const std::string& path, const std::vector<std::string>& overrides) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) {
    throw Error(ExitCode::usage,
                fmt::format("{}: cannot be read: is the path of the deck right?", path));
  }
  return parse_deck(text.str(), path, overrides);
}

}  // namespace adaptra::deck
