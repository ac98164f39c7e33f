/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the charts of the page: data from the element #data, colours from the style sheet. */
"use strict";
(function () {
  const charts = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function theme() {
    const style = getComputedStyle(document.documentElement);
    return (name) => style.getPropertyValue("--" + name).trim();
  }

  function trace(series, chart, colour) {
    const truth = series.colour === "truth";
    const ink = truth || series.colour < 0 ? colour("soft") : colour("c" + series.colour);
    return {
      name: series.name,
      x: series.x,
      y: series.y,
      type: "scatter",
      mode: series.style === "points" ? "markers" : "lines",
      marker: { color: ink, size: 7 },
      connectgaps: false,
      line: { color: ink, width: truth ? 1 : 1.7, shape: chart.steps || "linear" },
      fill: series.style === "area" ? "tozeroy" : "none",
      fillcolor: ink + "33",
      hovertemplate: "%{y:" + chart.hover + "}" + (chart.unit || ""),
    };
  }

  function layout(chart, colour) {
    const axis = {
      gridcolor: colour("line"),
      zerolinecolor: colour("line"),
      linecolor: colour("line"),
      tickfont: { color: colour("soft"), size: 11 },
      title: { font: { color: colour("soft"), size: 11 }, standoff: 6 },
      fixedrange: true,
      automargin: true,
    };
    const shapes = (chart.lines || []).map((line) => ({
      type: "line", xref: "paper", x0: 0, x1: 1, y0: line.y, y1: line.y,
      line: { color: colour("soft"), width: 1, dash: "dash" },
    }));
    if (chart.band) {
      shapes.push({
        type: "rect", xref: "paper", x0: 0, x1: 1, y0: chart.band[0], y1: chart.band[1], layer: "below",
        fillcolor: colour("soft") + "22", line: { width: 0 },
      });
    }
    const yaxis = Object.assign({}, axis, {
      tickformat: chart.format,
      ticksuffix: chart.unit || "",
      title: Object.assign({ text: chart.y }, axis.title),
    });
    if (chart.range) yaxis.range = chart.range;
    if (chart.zero) yaxis.rangemode = "tozero";
    return {
      autosize: true,
      margin: { l: 8, r: 12, t: 8, b: 8 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, -apple-system, 'Segoe UI', sans-serif", color: colour("ink"), size: 12 },
      hovermode: "x unified",
      hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } },
      showlegend: chart.legend || chart.traces.length > 1,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: colour("soft"), size: 11 } },
      xaxis: Object.assign({}, axis, {
        title: Object.assign({ text: chart.x || "seconds since the phase began" }, axis.title),
        hoverformat: chart.x ? ".2f" : ".1f", ticksuffix: "", zeroline: false,
      }),
      yaxis: yaxis,
      shapes: shapes,
      annotations: (chart.lines || []).map((line) => ({
        xref: "paper", x: 1, xanchor: "right", y: line.y, yanchor: "bottom", showarrow: false,
        text: line.text, font: { color: colour("soft"), size: 11 },
      })),
    };
  }

  function draw() {
    const colour = theme();
    for (const [id, chart] of Object.entries(charts)) {
      const element = document.getElementById(id);
      if (!element) continue;
      const traces = chart.traces.map((series) => trace(series, chart, colour));
      Plotly.react(element, traces, layout(chart, colour), { displayModeBar: false, responsive: true });
    }
  }

  draw();
  dark.addEventListener("change", draw);
})();
