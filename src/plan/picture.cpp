#include "plan/picture.hpp"

#include "plan/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace adaptra::plan {
namespace {

struct Paint {
  const char* fill;
  const char* text;
};
constexpr std::array<Paint, 3> op_paint = {{{"#3b6fb6", "#ffffff"},    // F
                                            {"#2a9d8f", "#ffffff"},    // B
                                            {"#f2b84b", "#4a3500"}}};  // W
constexpr const char* ink = "#1f2933";
constexpr const char* faint = "#7b8794";
constexpr std::array<const char*, 8> curve_colours = {"#3b6fb6", "#d1495b", "#2a9d8f", "#f2a541",
                                                      "#7a5195", "#5c6b7a", "#8f5b34", "#0b3954"};
constexpr const char* font = "font-family=\"Helvetica,Arial,sans-serif\"";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    }
  }
  return out;
}

enum class Anchor { start, middle, end };

std::string label(double x, double y, const std::string& text, int size, const char* colour,
                  Anchor anchor = Anchor::start, const char* weight = "normal") {
  const char* name = anchor == Anchor::start    ? "start"
                     : anchor == Anchor::middle ? "middle"
                                                : "end";
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" {} font-size=\"{}\" font-weight=\"{}\" fill=\"{}\" "
      "text-anchor=\"{}\">{}</text>\n",
      x, y, font, size, weight, colour, name, escaped(text));
}

std::string open_svg(double width, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "fill=\"#ffffff\"/>\n",
      width, height);
}

// Round distance between ticks: 1, 2 or 5 times a power of ten.
double tick_step(double range, int about) {
  if (!(range > 0.0)) return 1.0;
  const double raw = range / about;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double lead = raw / power;
  return power * (lead < 1.5 ? 1.0 : lead < 3.5 ? 2.0 : lead < 7.5 ? 5.0 : 10.0);
}

std::string time_text(double ns) {
  if (ns >= 1e9) return fmt::format("{:.3g} s", ns * 1e-9);
  if (ns >= 1e6) return fmt::format("{:.4g} ms", ns * 1e-6);
  if (ns >= 1e3) return fmt::format("{:.4g} us", ns * 1e-3);
  return fmt::format("{:.0f} ns", ns);
}

class PlanPicture {
 public:
  PlanPicture(const Profile& profile, const Plan& plan, const Schedule& schedule)
      : p_(profile), plan_(plan), s_(schedule) {
    scale_ =
        (width_ - left_ - right_) / static_cast<double>(std::max<std::int64_t>(1, s_.makespan_ns));
    height_ = top_ + p_.stages * pitch_ + bottom_;
  }

  std::string draw() {
    std::string svg = open_svg(width_, height_);
    svg += title();
    svg += axis();
    for (int i = 0; i + 1 < p_.stages; ++i) svg += link(i);
    for (int i = 0; i < p_.stages; ++i) svg += stage(i);
    return svg + "</svg>\n";
  }

 private:
  double x(std::int64_t ns) const { return left_ + static_cast<double>(ns) * scale_; }
  double y(int stage) const { return top_ + stage * pitch_; }

  std::string title() const {
    const std::string name = p_.name.empty() ? "" : p_.name + " · ";
    std::string svg = label(left_, 30, name + plan_.policy, 19, ink, Anchor::start, "bold");
    std::string line = fmt::format("step {}", time_text(static_cast<double>(s_.makespan_ns)));
    if (plan_.lower_bound_ns > 0) {
      line += fmt::format(" · lower bound {} (gap {:.1f} %)",
                          time_text(static_cast<double>(plan_.lower_bound_ns)), 100 * plan_.gap);
    }
    line += fmt::format(" · {} stages, {} microbatches", p_.stages, p_.microbatches);
    svg += label(left_, 51, line, 13, faint);
    double at = width_ - right_;
    for (int kind = 2; kind >= 0; --kind) {
      constexpr std::array<const char*, 3> names = {"forward", "backward, input",
                                                    "backward, weights"};
      const char* name_of = names[static_cast<std::size_t>(kind)];
      at -= 8.0 * static_cast<double>(std::string_view(name_of).size()) + 24;
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"20\" width=\"13\" height=\"13\" rx=\"2\" fill=\"{}\"/>\n", at,
          op_paint[static_cast<std::size_t>(kind)].fill);
      svg += label(at + 18, 31, name_of, 13, ink);
    }
    return svg;
  }

  std::string axis() const {
    std::string svg;
    const double end = y(p_.stages - 1) + row_;
    const double step = tick_step(static_cast<double>(s_.makespan_ns), 10);
    for (double t = 0; t <= static_cast<double>(s_.makespan_ns) * 1.0001; t += step) {
      const double at = left_ + t * scale_;
      svg += fmt::format(
          "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" "
          "stroke=\"#e4e7eb\"/>\n",
          at, top_ - 8, end + 8);
      svg += label(at, end + 24, time_text(t), 12, faint, Anchor::middle);
    }
    svg += label(width_ - right_ + 14, top_ - 12, "bubble", 12, faint);
    return svg;
  }

  std::string stage(int i) const {
    const auto at = static_cast<std::size_t>(i);
    const double top = y(i);
    std::string svg = label(left_ - 14, top + row_ / 2 + 5, fmt::format("stage {}", i), 14, ink,
                            Anchor::end, "bold");
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#f3f5f7\"/>\n",
        left_, top, width_ - left_ - right_, row_);
    for (std::size_t j = 0; j < s_.ops[at].size(); ++j) {
      const Op op = plan_.order.stages[at][j];
      const Paint paint = op_paint[static_cast<std::size_t>(op.kind)];
      const double begin = x(s_.ops[at][j].start_ns);
      const double wide = x(s_.ops[at][j].end_ns) - begin;
      if (wide <= 0.0) continue;
      // A hairline of background between ops, as long as there is room for it.
      const double shown = wide > 3.0 ? wide - 0.8 : wide;
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" rx=\"{}\" "
          "fill=\"{}\"><title>{} {} .. {}</title></rect>\n",
          begin, top, shown, row_, wide > 8.0 ? 2 : 0, paint.fill, to_string(op),
          time_text(static_cast<double>(s_.ops[at][j].start_ns)),
          time_text(static_cast<double>(s_.ops[at][j].end_ns)));
      const std::string number = std::to_string(op.microbatch);
      if (wide >= 6.2 * static_cast<double>(number.size()) + 1.5) {
        svg += label(begin + shown / 2, top + row_ / 2 + 4, number, 10, paint.text, Anchor::middle);
      }
    }
    svg += label(width_ - right_ + 14, top + row_ / 2 + 5,
                 fmt::format("{:.1f} %", 100 * s_.bubble[at]), 14, ink);
    return svg;
  }

  // Messages of a link that a person would see at this scale, and its figures.
  std::string link(int i) const {
    const auto at = static_cast<std::size_t>(i);
    const Link& l = p_.links[at];
    const std::int64_t down = l.forward_delay_ns + l.forward_occupancy_ns;
    const std::int64_t up = l.backward_delay_ns + l.backward_occupancy_ns;
    std::string svg;
    if (down == 0 && up == 0) return svg;
    svg += label(left_ - 14, y(i) + row_ + (pitch_ - row_) / 2 + 4,
                 fmt::format("↓ {}  ↑ {}", time_text(static_cast<double>(down)),
                             time_text(static_cast<double>(up))),
                 11, "#d1495b", Anchor::end);
    const double low = y(i) + row_;
    const double high = y(i + 1);
    const auto line = [&](std::int64_t from, std::int64_t to, double y1, double y2, OpKind kind) {
      if (x(to) - x(from) < 4.0) return;
      svg += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
          "stroke-width=\"1.1\" stroke-opacity=\"0.6\"/>\n",
          x(from), y1, x(to), y2, op_paint[static_cast<std::size_t>(kind)].fill);
    };
    for (int stage = i; stage <= i + 1; ++stage) {
      const auto from = static_cast<std::size_t>(stage);
      const OpKind kind = stage == i ? OpKind::forward : OpKind::backward_input;
      for (std::size_t j = 0; j < s_.ops[from].size(); ++j) {
        const Op op = plan_.order.stages[from][j];
        if (op.kind != kind) continue;
        const auto k = static_cast<std::size_t>(op.microbatch);
        if (stage == i) {
          line(s_.ops[from][j].end_ns, s_.forward[at].arrived_ns[k], low, high, kind);
        } else {
          line(s_.ops[from][j].end_ns, s_.backward[at].arrived_ns[k], high, low, kind);
        }
      }
    }
    return svg;
  }

  const Profile& p_;
  const Plan& plan_;
  const Schedule& s_;
  const double width_ = 1500;
  const double left_ = 150;
  const double right_ = 90;
  const double top_ = 86;
  const double bottom_ = 26;
  const double row_ = 34;
  const double pitch_ = 54;
  double height_ = 0;
  double scale_ = 1;
};

}  // namespace

Result<std::string> plan_svg(const Profile& profile, const Plan& plan) {
  const Result<Schedule> schedule = simulate(profile, plan.order);
  if (!schedule) return schedule.error();
  return PlanPicture(profile, plan, schedule.value()).draw();
}

std::string curves_svg(const std::string& title, const std::string& x_name,
                       const std::string& y_name, const std::vector<double>& x,
                       const std::vector<Curve>& curves) {
  const double width = 980;
  const double height = 560;
  const double left = 84;
  const double right = 230;
  const double top = 64;
  const double bottom = 64;
  double y_low = 1e300;
  double y_high = -1e300;
  for (const Curve& curve : curves) {
    for (const double value : curve.y) {
      y_low = std::min(y_low, value);
      y_high = std::max(y_high, value);
    }
  }
  const double x_low = x.empty() ? 0.0 : *std::min_element(x.begin(), x.end());
  const double x_high = x.empty() ? 1.0 : *std::max_element(x.begin(), x.end());
  const double y_step = tick_step(std::max(y_high - y_low, 1e-9), 7);
  y_low = std::floor(y_low / y_step) * y_step;
  y_high = std::max(std::ceil(y_high / y_step) * y_step, y_low + y_step);
  const auto at_x = [&](double v) {
    return left + (width - left - right) * (v - x_low) / std::max(1e-300, x_high - x_low);
  };
  const auto at_y = [&](double v) {
    return height - bottom - (height - top - bottom) * (v - y_low) / (y_high - y_low);
  };
  std::string svg = open_svg(width, height);
  svg += label(left, 34, title, 18, ink, Anchor::start, "bold");
  svg += label(left, top - 10, y_name, 12, faint);
  svg += label((left + width - right) / 2, height - 18, x_name, 13, ink, Anchor::middle);
  for (double v = y_low; v <= y_high + y_step / 2; v += y_step) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" stroke=\"#e4e7eb\"/>\n",
        left, at_y(v), width - right);
    svg += label(left - 10, at_y(v) + 4, fmt::format("{:.4g}", v), 12, faint, Anchor::end);
  }
  const double x_step = tick_step(x_high - x_low, 8);
  for (double v = std::ceil(x_low / x_step) * x_step; v <= x_high + x_step / 1000; v += x_step) {
    svg +=
        label(at_x(v), height - bottom + 20, fmt::format("{:.4g}", v), 12, faint, Anchor::middle);
  }
  // Names stand beside the ends of their curves, moved apart where they would overlap.
  std::vector<std::pair<double, std::size_t>> ends;
  for (std::size_t c = 0; c < curves.size(); ++c) {
    if (!curves[c].y.empty()) ends.emplace_back(at_y(curves[c].y.back()), c);
  }
  std::sort(ends.begin(), ends.end());
  double last = top - 20;
  for (const auto& [y, c] : ends) {
    const char* colour = curve_colours[c % curve_colours.size()];
    std::string points;
    for (std::size_t j = 0; j < std::min(x.size(), curves[c].y.size()); ++j) {
      points += fmt::format("{:.1f},{:.1f} ", at_x(x[j]), at_y(curves[c].y[j]));
    }
    svg += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2.4\" "
        "stroke-linejoin=\"round\"{}/>\n",
        points, colour, curves[c].name == "lower bound" ? " stroke-dasharray=\"6 5\"" : "");
    const double name_y = std::max(y + 4, last + 17);
    last = name_y;
    svg += label(width - right + 10, name_y, curves[c].name, 13, colour, Anchor::start, "bold");
  }
  return svg + "</svg>\n";
}

}  // namespace adaptra::plan
