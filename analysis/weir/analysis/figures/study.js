/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the figures whose traces and layouts are in #data, with colour names replaced by the style sheet's values.
   With `exporting` set, writes every figure as SVG text into #drawn instead. */
"use strict";
(function () {
  const figures = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 600px)");

  function coloured(value, style) {
    if (Array.isArray(value)) return value.map((part) => coloured(part, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, coloured(part, style)]));
    }
    const name = typeof value === "string" ? /^@([a-z0-9]+)(\+([0-9a-f]{2}))?$/.exec(value) : null;
    return name ? style.getPropertyValue("--" + name[1]).trim() + (name[3] || "") : value;
  }

  function axis(given, small) {
    const base = {
      gridcolor: "@line", zerolinecolor: "@line", linecolor: "@line", automargin: true, fixedrange: true,
      tickfont: { color: "@soft", size: small ? 10 : 11 },
    };
    const found = Object.assign(base, given || {});
    found.title = { text: (given && given.title) || "", font: { color: "@soft", size: 11 }, standoff: 6 };
    return found;
  }

  function layout(figure, exported, small) {
    const given = figure.layout;
    const found = Object.assign({
      autosize: !exported, height: figure.height,
      margin: { l: 8, r: 12, t: exported ? 40 : 8, b: 8 },
      paper_bgcolor: exported ? "@card" : "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, -apple-system, 'Segoe UI', sans-serif", color: "@ink", size: 12 },
      hoverlabel: { bgcolor: "@card", bordercolor: "@line", font: { color: "@ink" } },
      showlegend: figure.traces.filter((one) => one.showlegend !== false && one.name).length > 1,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: "@soft", size: 11 } },
    }, given);
    if (exported) found.title = { text: figure.title, font: { size: 14 }, x: 0.01, xanchor: "left" };
    if (exported && found.showlegend) found.margin.t = 70;
    found.xaxis = axis(given.xaxis, small);
    found.yaxis = axis(given.yaxis, small);
    return found;
  }

  function prepared(figure, exported) {
    const style = getComputedStyle(document.documentElement);
    const small = narrow.matches && !exported;
    const traces = figure.traces.map((one) => {
      if (one.type !== "heatmap") return one;
      return Object.assign({}, one, { showscale: !small, colorbar: Object.assign({ tickfont: { color: "@soft" } },
        one.colorbar, { title: { text: one.colorbar.title, font: { color: "@soft", size: 11 } } }) });
    });
    return [coloured(traces, style), coloured(layout(figure, exported, small), style)];
  }

  function draw() {
    for (const [name, figure] of Object.entries(figures)) {
      const element = document.getElementById("figure-" + name);
      if (!element) continue;
      const [traces, plan] = prepared(figure, false);
      Plotly.react(element, traces, plan, { displayModeBar: false, responsive: true });
    }
  }

  async function exported() {
    const drawn = {};
    for (const [name, figure] of Object.entries(figures)) {
      const [traces, plan] = prepared(figure, true);
      const url = await Plotly.toImage({ data: traces, layout: plan },
        { format: "svg", width: 900, height: figure.height + 60 });
      drawn[name] = decodeURIComponent(url.slice(url.indexOf(",") + 1));
    }
    document.getElementById("drawn").textContent = JSON.stringify(drawn);
  }

  if (typeof exporting !== "undefined") {
    exported();
  } else {
    draw();
    dark.addEventListener("change", draw);
    narrow.addEventListener("change", draw);
  }
})();
