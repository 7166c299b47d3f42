// What `page_times.py` runs in the page: each measures one thing, and answers with milliseconds.
({
  async draw({draws, spans: wanted}) {
    const {draw} = await import("/web/tracks/draw.js");
    const {Palette} = await import("/web/tracks/palette.js");
    const {layout} = await import("/web/tracks/layout.js");
    const {Spans} = await import("/web/tracks/spans.js");
    const {emptyState} = await import("/web/fold.js");
    const spans = new Spans(emptyState());
    const partitions = Array.from({length: 8}, (_, n) => ({topic: "orders", partition: n, replicas: [1, 2, 3]}));
    const lanes = [["controller", [["active", 1], ["dead", 1], ["none", -1], ["active", 2]]]];
    for (const id of [1, 2, 3, 4, 5]) lanes.push([`belief:${id}`, [["right", 1], ["stale", 1], ["down", -1], ["silent", -1]]]);
    for (const id of [1, 2, 3, 4, 5, 6, 7]) lanes.push([`peer:${id}`, [["following", -1], ["looking", -1], ["joining", -1], ["leading", -1]]]);
    for (const {partition: n} of partitions) {
      lanes.push([`trouble:orders-${n}`, [["offline", -1], ["orphan", 1]]]);
      for (const id of [1, 2, 3]) lanes.push([`replica:orders-${n}:${id}`, [["leader", id], ["in_sync", id], ["out", id]]]);
    }
    const each = Math.ceil(wanted / lanes.length);
    const [from_us, to_us] = [1e15, 1e15 + 600e6];
    let drawn = 7;
    const random = () => (drawn = (drawn * 16807) % 2147483647) / 2147483647;
    for (const [lane, says] of lanes) {
      let at = from_us;
      const all = Array.from({length: each}, (_, i) => {
        const [state, id] = says[i % says.length];
        const begin = at;
        at += ((to_us - from_us) / each) * (0.1 + 1.8 * random());
        return {state, id, epoch: i, text: `${state}, epoch ${i}`, process: i % 9 ? "running" : "down", from_us: begin, to_us: at, seq: i};
      });
      all.at(-1).to_us = null;
      spans.lanes.set(lane, all);
    }
    for (const {partition: n} of partitions) spans.replicas.set(`orders-${n}`, new Set([1, 2, 3]));
    for (let i = 0; i < 400; i += 1) spans.marks.push({row: i % 2 ? "done" : "came", at_us: from_us + i * 1.5e6, seq: i, kind: "process", text: "kill broker 1", tone: "bad"});
    const [width, height] = [innerWidth - 40, innerHeight - 150];
    const canvas = document.createElement("canvas");
    document.body.append(canvas);
    const scale = devicePixelRatio;
    [canvas.width, canvas.height] = [width * scale, height * scale];
    const ctx = canvas.getContext("2d", {willReadFrequently: true});
    ctx.scale(scale, scale);
    const palette = new Palette();
    const topic = {name: "orders", partitions};
    const set = layout(spans, [{topic, partitions, unfolded: true}], 24, 1, height);
    const window_ = {from_us, to_us, now_us: to_us, first_us: from_us, width, height, gutter: 150, scrolled: 0, layout: set, spans, palette};
    const count = [...spans.lanes.values()].reduce((sum, all) => sum + all.length, 0);
    const times = [];
    for (let i = 0; i < draws; i += 1) {
      const began = performance.now();
      draw(ctx, window_);
      const recorded = performance.now();
      ctx.getImageData(0, 0, 1, 1);
      times.push([recorded - began, performance.now() - began]);
    }
    canvas.remove();
    return {count, rows: set.pinned.length + set.rows.length, times};
  },

  async diagram({draws, messages: wanted}) {
    const {scene} = await import("/web/messages/scene.js");
    const {draw, palette, FONT, BOLD} = await import("/web/messages/drawing.js");
    const names = ["peer-1", "peer-2", "peer-3", "broker-1", "broker-2", "broker-3", "client"];
    const kinds = ["PROPOSAL", "ACK", "COMMIT", "multi", "LeaderAndIsr", "LeaderAndIsr answer", "UpdateMetadata", "Notification", "create"];
    const classes = ["broadcast", "broadcast", "broadcast", "client", "controller", "controller", "controller", "election", "client"];
    const messages = Array.from({length: wanted}, (_, id) => ({
      id, sent_us: id * 40, arrived_us: id % 50 ? id * 40 + 900 + (id % 7) * 150 : null, from: names[id % 7], to: names[(id * 3 + 1 + (id % 5)) % 7],
      class: classes[id % 9], kind: kinds[id % 9], subject: {op: "multi", vote: 3, path: "/brokers/topics/orders"}, bytes: 80, answers: null, lost: null,
    }));
    const window_ = {from_us: 0, to_us: wanted * 40 + 3000};
    const place = document.createElement("div");
    const canvas = document.createElement("canvas");
    place.append(canvas);
    document.body.append(place);
    const ctx = canvas.getContext("2d", {willReadFrequently: true});
    const measure = (text, bold) => {
      ctx.font = bold ? BOLD : FONT;
      return ctx.measureText(text).width;
    };
    const times = [];
    for (let i = 0; i < draws; i += 1) {
      const began = performance.now();
      const of = scene({messages, events: [], lanes: names.map((name) => ({name, role: ""})), phases: [], kind: "true", window: window_, width: innerWidth - 400, measure});
      const placed = performance.now();
      draw(canvas, of, palette(canvas), {at_us: 5000, marked: null, when: String});
      const recorded = performance.now();
      ctx.getImageData(0, 0, 1, 1);
      times.push([placed - began, recorded - placed, performance.now() - began]);
    }
    place.remove();
    return times;
  },

  async seek(numbers) {
    const {theMoment} = await import("/web/main.js");
    const moment = theMoment();
    const times = [];
    for (const at of numbers) {
      const began = performance.now();
      moment.go({run: "live", at});
      await moment.seeking;
      if (moment.current().seq !== at) throw new Error(`${moment.current().seq} is shown, not ${at}: ${moment.trouble}`);
      const there = performance.now();
      while (!document.querySelector(".when.past")?.textContent.includes(`event ${at}`)) await new Promise(requestAnimationFrame);
      const drawn = performance.now();
      await new Promise((resolve) => setTimeout(resolve, 150));
      times.push([there - began, drawn - began]);
    }
    return times;
  },

  async events(seconds) {
    const {theMoment} = await import("/web/main.js");
    const moment = theMoment();
    const took = [];
    let seen = moment.current().seq;
    const shown = () => Number(document.querySelector("#events .sum b")?.textContent ?? 0);
    const end = performance.now() + seconds * 1000;
    while (performance.now() < end) {
      await new Promise(requestAnimationFrame);
      const seq = shown();
      if (seq <= seen) continue;
      const now_us = Date.now() * 1000;
      for (const entry of window.told ?? []) if (entry.seq > seen && entry.seq <= seq) took.push((now_us - entry.wall_us) / 1000);
      window.told = (window.told ?? []).filter((entry) => entry.seq > seq);
      seen = seq;
    }
    return took;
  },

  async hear() {
    window.told = [];
    const source = new EventSource("/api/v1/events");
    source.addEventListener("message", (message) => window.told.push(JSON.parse(message.data)));
  },

  async kill(id) {
    const card = [...document.querySelectorAll("[aria-label]")].find((each) => each.ariaLabel === `Broker ${id}`);
    const process = () => card.querySelector(".process")?.textContent ?? "";
    const button = document.querySelector(`[aria-label="Kill broker ${id}"]`);
    const began = performance.now();
    button.click();
    while (!process().includes("down")) await new Promise(requestAnimationFrame);
    return performance.now() - began;
  },
})
