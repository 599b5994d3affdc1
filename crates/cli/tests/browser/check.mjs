// Opens pages in a browser and says what is wrong with them: check.mjs CHROMIUM PAGE RESULT[,RESULT...] ...
// A page is held against the JSON that it was made from.
import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { chromium } from "playwright-core";

const [, , executablePath, ...words] = process.argv;
const wrong = [];
let checks = 0;
const check = (what, is) => {
  checks += 1;
  if (!is) wrong.push(what);
};
// a.b.0.c, and what is behind a slash is one key.
const at = (value, path) => {
  const [head, ...keys] = path.split("/");
  return [...head.split("."), ...keys].reduce((v, key) => v?.[key], value);
};
const runsOf = (name) => {
  const json = JSON.parse(readFileSync(name, "utf8"));
  return json.repeats ?? [json];
};

// How long a step may take, in ms. Each is far quicker where cores are free, and only a browser that hangs takes so long.
const patience = 600_000;
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"], timeout: patience });
const open = async (options) => {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(patience);
  return context;
};
// What a tip says when the mouse has come to x, y. A browser without a free core shows it some frames later.
const hover = async (page, x, y, tip) => {
  const end = Date.now() + patience / 10;
  for (let k = 0; ; k += 1) {
    await page.mouse.move(x + (k % 2 ? -1 : 1), y);
    await page.mouse.move(x, y);
    const said = await tip.textContent();
    if (/\d/.test(said) || Date.now() > end) return said;
    await page.waitForTimeout(50);
  }
};
for (let i = 0; i < words.length; i += 2) {
  const [file, results] = [words[i], words[i + 1].split(",").filter(Boolean)];
  check(`${file}: ${statSync(file).size} bytes`, statSync(file).size <= 2.5e6);
  for (const colorScheme of ["light", "dark"]) {
    const context = await open({ colorScheme, viewport: { width: 1100, height: 900 } });
    const page = await context.newPage();
    page.on("console", (m) => check(`${file}: console: ${m.text()}`, m.type() !== "error" && m.type() !== "warning"));
    page.on("pageerror", (e) => check(`${file}: ${e.stack}`, false));
    page.on("request", (r) => check(`${file}: asks for ${r.url().slice(0, 80)}`, /^(file|data|blob):/.test(r.url())));
    await page.goto(`file://${resolve(file)}`);
    if (colorScheme === "dark") {
      const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      check(`${file}: ground in dark: ${ground}`, /rgb\((\d+), (\d+), (\d+)\)/.exec(ground).slice(1).every((c) => Number(c) < 64));
      await context.close();
      continue;
    }
    const figures = await page.evaluate(() => window.wordline?.figures.map((figure) => {
      const svg = figure.querySelector(".plot svg");
      const box = (e) => { const b = e.getBoundingClientRect(); return b.width + b.height; };
      const marks = svg ? [...svg.querySelectorAll("[aria-label=line] path, [aria-label=rect] rect, [aria-label=bar] rect, [aria-label=cell] rect, [aria-label=dot] circle")] : [];
      const saved = svg ? window.wordline.saved(figure).text : "";
      return {
        id: figure.id,
        marks: marks.filter((m) => box(m) > 0).length,
        name: svg?.getAttribute("aria-label") ?? "",
        text: figure.textContent + (svg?.textContent ?? ""),
        saved, whole: new DOMParser().parseFromString(saved, "image/svg+xml").querySelector("parsererror") === null,
        csv: figure.chart ? window.wordline.csv(figure.chart.csv) : "",
        wide: figure.scrollWidth > figure.clientWidth + 1,
      };
    }) ?? []);
    check(`${file}: no picture`, figures.length > 0 || (await page.locator("figure").count()) === 0);
    check(`${file}: pictures drawn`, figures.length === (await page.locator("figure").count()));
    for (const f of figures) {
      const of = `${file}: ${f.id}`;
      check(`${of}: no marks`, f.marks > 0);
      check(`${of}: no name`, f.name.length > 8);
      check(`${of}: a number that is none: ${f.text.match(/.{0,20}(NaN|undefined|Infinity)/)?.[0]}`, !/NaN|undefined|Infinity/.test(f.text));
      check(`${of}: saved as SVG`, f.whole && f.saved.length > 500 && !/var\(|NaN/.test(f.saved));
      check(`${of}: saved as CSV: ${f.csv.slice(0, 60)}`, f.csv.split("\n").length > 2 && !/NaN|undefined/.test(f.csv));
      check(`${of}: wider than its place`, !f.wide);
    }
    const text = await page.locator("main").innerText();
    check(`${file}: a number that is none: ${text.match(/.{0,30}(NaN|undefined|Infinity)/)?.[0]}`, !/NaN|undefined|Infinity/.test(text));
    if (results.length === 1) {
      const [run] = runsOf(results[0]);
      const cells = await page.evaluate(() => [...document.querySelectorAll("[data-path]")].map((e) => [e.dataset.path, e.dataset.value, e.textContent]));
      check(`${file}: ${cells.length} numbers of the result`, cells.length > 20);
      for (const [path, value, shown] of cells) {
        check(`${file}: ${path}: ${shown} (${value}) against ${at(run, path)}`, Number(value) === at(run, path) && shown !== "");
      }
    }
    const shown = await page.evaluate(() => window.wordline?.data.results.flatMap((r) => r.runs.map((run) => run.wordline.machine.served)) ?? []);
    const served = results.flatMap((name) => runsOf(name).map((run) => run.wordline.machine.served));
    if (results.length) check(`${file}: ${shown} I/Os against ${served}`, shown.join() === served.join());
    // Hover tells values.
    const first = page.locator("figure .plot svg:not(:has(svg))").first();
    if (await first.count()) {
      await first.scrollIntoViewIfNeeded();
      const box = await first.boundingBox();
      const tip = await hover(page, box.x + box.width * 0.52, box.y + box.height * 0.5, first.locator("[aria-label=tip]"));
      check(`${file}: hover says '${tip}'`, /\d/.test(tip));
    }
    // Also at the end of a bar.
    const bar = await page.evaluate(() => {
      const bars = [...document.querySelectorAll("figure[data-chart=layers] .plot svg g[aria-label=bar] rect")];
      const widest = bars.sort((a, b) => b.getBoundingClientRect().width - a.getBoundingClientRect().width)[0];
      if (!widest) return null;
      widest.scrollIntoView({ block: "center" });
      const { x, y, height } = widest.getBoundingClientRect();
      return { x: x + 4, y: y + height / 2, id: widest.closest("figure").id };
    });
    if (bar) {
      const tip = await hover(page, bar.x, bar.y, page.locator(`#${bar.id} [aria-label=tip]`));
      check(`${file}: hover at the end of a bar says '${tip}'`, /\d/.test(tip));
      await page.mouse.move(1, 1);
    }
    // A distribution's curve goes one way.
    const back = await page.evaluate(() => [...document.querySelectorAll("figure[data-chart^=tail] .plot svg g[aria-label=line] path")].filter((path) => {
      const ends = path.getAttribute("d").split(/(?=[MLC])/).map((part) => Number(part.slice(1).split(",").at(-2)));
      return ends.some((x, k) => k > 0 && x < ends[k - 1]);
    }).map((path) => path.closest("figure").id));
    check(`${file}: curves that turn back: ${back}`, back.length === 0);
    // What the buttons save: of the first page every picture, of others one. A browser makes a PNG when it has nothing
    // else to do, and lets few files come at once: four are asked for at a time.
    const files = figures.slice(0, i === 0 ? Infinity : 1).flatMap((f, k) =>
      (k === 0 ? ["PNG", "SVG", "CSV"] : ["PNG"]).map((kind) => ({ id: f.id, kind, name: `${f.id}.${kind.toLowerCase()}` })));
    const got = new Map();
    for (let k = 0; k < files.length; k += 4) {
      await Promise.all(files.slice(k, k + 4).map(async ({ id, kind, name }) => {
        const coming = page.waitForEvent("download", (d) => d.suggestedFilename() === name);
        await page.evaluate(([id, kind]) => {
          const buttons = document.getElementById(id).querySelectorAll(".save button");
          [...buttons].find((button) => button.textContent === kind).click();
        }, [id, kind]);
        got.set(name, readFileSync(await (await coming).path()));
      }));
    }
    for (const id of new Set(files.map((f) => f.id))) {
      const saved = { PNG: got.get(`${id}.png`), SVG: got.get(`${id}.svg`), CSV: got.get(`${id}.csv`) };
      check(`${file}: ${id}: no PNG`, saved.PNG.subarray(0, 8).equals(Buffer.from([137, 80, 78, 71, 13, 10, 26, 10])));
      check(`${file}: ${id}: no SVG`, saved.SVG?.toString().startsWith("<svg") ?? true);
      check(`${file}: ${id}: no CSV`, !saved.CSV || saved.CSV.toString().split("\n").length > 2);
      // Drawn, not a blank sheet, on a ground that is not clear.
      const png = await page.evaluate(async ([bytes, id]) => {
        const image = new Image();
        image.src = `data:image/png;base64,${bytes}`;
        await image.decode();
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [image.width, image.height];
        const context = canvas.getContext("2d", { willReadFrequently: true });
        context.drawImage(image, 0, 0);
        const points = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
        const counts = new Map();
        let looked = 0;
        for (let k = 0; k < points.length; k += 5, looked += 1) counts.set(points[k], (counts.get(points[k]) ?? 0) + 1);
        const { width, height } = window.wordline.saved(document.getElementById(id));
        const clear = [...counts.keys()].filter((point) => point >>> 24 < 255).length;
        return { width: image.width, height: image.height, wide: width, high: height, colours: counts.size, clear, most: Math.max(...counts.values()) / looked };
      }, [saved.PNG.toString("base64"), id]);
      check(`${file}: ${id}: PNG of ${png.width} x ${png.height} for ${png.wide} x ${png.high}`, png.width === png.wide * 2 && png.height === png.high * 2);
      check(`${file}: ${id}: PNG of ${png.colours} colours, ${png.most} of it one`, png.colours > 8 && png.most < 0.995);
      check(`${file}: ${id}: PNG with ${png.clear} clear colours`, png.clear === 0);
    }
    // What a choice or the width changes is drawn anew.
    const select = page.locator("figure select").first();
    if (await select.count()) {
      const drawn = () => page.evaluate(() => document.querySelector("figure:has(select) .plot").innerHTML);
      const before = await drawn();
      await select.selectOption({ index: 1 });
      check(`${file}: a choice changes nothing`, before !== (await drawn()));
    }
    await page.setViewportSize({ width: 420, height: 900 });
    await page.waitForFunction(() => (window.wordline?.figures ?? []).every((f) => Number(f.querySelector(".plot svg").getAttribute("width")) <= 420));
    const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    check(`${file}: ${over} px too wide for a narrow screen`, over <= 1);
    const cut = await page.evaluate(() => [...document.querySelectorAll("figure .plot svg")].flatMap((svg) => {
      const { left, right } = svg.getBoundingClientRect();
      return [...svg.querySelectorAll("text")].filter((text) => {
        const box = text.getBoundingClientRect();
        return box.width > 0 && (box.left < left - 1 || box.right > right + 1);
      }).map((text) => `${text.closest("figure").id}: '${text.textContent}'`);
    }));
    check(`${file}: cut off on a narrow screen: ${cut}`, cut.length === 0);
    await context.close();
  }
  const plain = await open({ javaScriptEnabled: false });
  const page = await plain.newPage();
  await page.goto(`file://${resolve(file)}`);
  check(`${file}: no table without JavaScript`, (await page.locator("table").count()) > 0);
  check(`${file}: without JavaScript nothing says why there are no pictures`,
    (await page.locator("figure").count()) === 0 || (await page.locator("noscript p").isVisible()));
  await plain.close();
}
await browser.close();
wrong.forEach((w) => console.log(w));
console.log(`${checks} checks, ${wrong.length} wrong`);
process.exit(wrong.length ? 1 : 0);
