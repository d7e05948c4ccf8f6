'use strict';
// What comes from ZooKeeper becomes text, through textContent, and nothing else.
(() => {
	const at = (id) => document.getElementById(id);
	const atOnce = 100; // rows
	const inDetail = 500; // contenders
	const inTimeline = 100;

	const locks = new Map(); // by id: {lock, row, times, words, stale}
	const timeline = [];
	let ahead = 0, most = atOnce; // ahead: the server's clock, less this one
	let lease = null, latest = null, source = null, retry = 0, broken = false; // broken: the stream has failed, and not come back
	let chosen = '', asking = false, again = false, unsure = false, revoking = false; // the lock in the dialog

	const element = (tag, name, text) => {
		const made = document.createElement(tag);
		if (name) made.className = name;
		if (text !== undefined) made.textContent = text;
		return made;
	};
	// clean shows what would be invisible, or would turn the direction of other text.
	const clean = (text) => text.replace(/[\t\r\n]+/g, ' ')
		.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g, '\ufffd');
	const write = (node, text) => { if (node.textContent !== text) node.textContent = text; };
	const plural = (n, one, many) => n.toLocaleString('en') + ' ' + (n === 1 ? one : many);
	const age = (since) => {
		const s = Math.max(0, Math.floor((Date.now() + ahead - since) / 1000));
		if (s < 60) return s + 's';
		if (s < 3600) return Math.floor(s / 60) + 'm ' + s % 60 + 's';
		if (s < 86400) return Math.floor(s / 3600) + 'h ' + Math.floor(s % 3600 / 60) + 'm';
		return Math.floor(s / 86400) + 'd ' + Math.floor(s % 86400 / 3600) + 'h';
	};
	const begin = (c) => Date.parse(c.held_since ?? c.since);
	// bound says that a time is an upper bound: the grant was not seen, so the time in the queue is in it.
	const bound = (c) => (c.holding && !c.held_since ? '≤\u00a0' : '');
	const doing = (c) => (c.holding ? 'holds' : 'waits') + (c.may_be_idle ? ', may be idle' : '');
	// A mutex and an election have the same nodes.
	const kindOf = (lock) => ({ mutex: 'mutex or election', readwrite: 'read/write' })[lock.kind] ?? lock.kind;
	// brief cuts the GUIDs of node names.
	const brief = (text) => clean(text).replace(/(?<![0-9a-f])([0-9a-f]{4})[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}(?![0-9a-f])/g, '$1…');
	const who = (c) => {
		if (!c.data) return 'session ' + c.session;
		return clean(c.data) + (c.data_bytes ? '… (' + c.data_bytes.toLocaleString('en') + ' bytes)' : '');
	};

	// place makes the children of a node those wanted, and moves only what is elsewhere.
	const place = (parent, wanted) => {
		let next = parent.firstChild;
		for (const node of wanted) {
			if (node === next) next = next.nextSibling;
			else parent.insertBefore(node, next);
		}
		while (next) {
			const gone = next;
			next = next.nextSibling;
			gone.remove();
		}
	};

	// A row of the list.
	const rowOf = (entry) => {
		if (!entry.row) {
			const row = entry.row = element('li', 'lock');
			const name = element('button', 'name'), head = element('div');
			name.type = 'button';
			name.setAttribute('aria-haspopup', 'dialog');
			name.append(element('bdi', 'dir'), element('bdi', 'base'));
			name.addEventListener('click', () => open(entry.lock.id));
			head.append(name, element('span', 'facts'));
			const holders = element('ol', 'lane holders'), waiters = element('ol', 'lane waiters');
			holders.setAttribute('aria-label', 'Holders');
			waiters.setAttribute('aria-label', 'Waiters');
			row.append(head, holders, waiters);
			entry.chips = new Map();
		}
		if (entry.stale) fill(entry);
		return entry.row;
	};
	const fill = (entry) => {
		const { lock, row } = entry, old = entry.chips;
		entry.stale = false;
		entry.times = [];
		entry.chips = new Map();
		const path = clean(lock.path), slash = path.lastIndexOf('/') + 1;
		write(row.querySelector('.dir'), path.slice(0, slash));
		write(row.querySelector('.base'), path.slice(slash) || '/');
		const size = lock.size ? ' of ' + plural(lock.size, 'permit', 'permits') : '';
		write(row.querySelector('.facts'), kindOf(lock) + size + (lock.waiters ? ' · ' + plural(lock.waiters, 'waiter', 'waiters').replace(' ', '\u00a0') : '') + (lock.seen ? ' · seen at ' + new Date(lock.seen).toTimeString().slice(0, 8) : ''));
		const [holders, waiters] = [[], []];
		let position = 0;
		for (const c of lock.contenders) {
			const chip = old.get(c.node) ?? element('li');
			entry.chips.set(c.node, chip);
			chipOf(chip, c, c.holding ? 0 : ++position, entry);
			(c.holding ? holders : waiters).push(chip);
		}
		const rest = (list, of, one, many) => {
			if (of <= list.length) return;
			const item = element('li'), button = element('button', 'rest', '+' + (of - list.length).toLocaleString('en') + ' more');
			button.type = 'button';
			button.setAttribute('aria-label', plural(of - list.length, 'more ' + one, 'more ' + many) + ' of ' + path);
			button.addEventListener('click', () => open(lock.id));
			item.append(button);
			list.push(item);
		};
		rest(holders, lock.holders, 'holder', 'holders');
		rest(waiters, lock.waiters, 'waiter', 'waiters');
		if (!holders.length && !lock.error) holders.push(element('li', 'nobody', lock.waiters ? 'not held' : 'free'));
		let error = row.querySelector('.error');
		if (lock.error) {
			if (!error) row.append(error = element('p', 'error'));
			write(error, clean(lock.error));
		} else if (error) error.remove();
		for (const [name, list] of [['.holders', holders], ['.waiters', waiters]]) {
			const lane = row.querySelector(name);
			place(lane, list);
			lane.hidden = !list.length || Boolean(lock.error);
		}
	};
	const chipOf = (chip, c, position, entry) => {
		chip.className = 'chip ' + (c.holding ? 'holds' : 'waits') + (c.own ? ' own' : '');
		const parts = [];
		if (position) parts.push(element('span', 'place', position));
		const side = c.kind.includes('read') ? 'read' : c.kind.includes('writ') ? 'write' : c.permits > 1 ? '×' + c.permits : '';
		parts.push(element('bdi', 'who', who(c)));
		if (side) parts.push(element('span', 'side', side));
		if (c.may_be_idle) parts.push(element('span', 'side', 'may be idle'));
		const time = element('span', 'time');
		parts.push(time);
		if (c.own && c.holding && lease) {
			const bar = element('span', 'lease');
			bar.setAttribute('role', 'img');
			bar.setAttribute('aria-label', 'the lease of this process');
			parts.push(bar);
		}
		chip.title = doing(c) + (bound(c) ? ' since its grant, which was not seen' : '') + ', token ' + c.token + (c.own ? ', this process' : '');
		chip.replaceChildren(...parts);
		entry.times.push([time, begin(c), bound(c)]);
	};

	// What is to be seen.
	const orders = {
		path: (a, b) => a.lock.path < b.lock.path ? -1 : a.lock.path > b.lock.path ? 1 : 0,
		waiters: (a, b) => b.lock.waiters - a.lock.waiters,
		wait: (a, b) => (a.wait ?? Infinity) - (b.wait ?? Infinity),
		hold: (a, b) => (a.hold ?? Infinity) - (b.hold ?? Infinity),
	};
	const render = () => {
		const words = at('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
		const contended = at('contended').checked, own = at('own').checked, order = orders[at('sort').value];
		const found = [...locks.values()].filter((e) => (!contended || e.lock.waiters) && (!own || e.own) && words.every((w) => e.words.includes(w)));
		found.sort((a, b) => order(a, b) || orders.path(a, b));
		place(at('locks'), found.slice(0, most).map(rowOf));
		at('columns').hidden = !found.length;
		at('more').hidden = found.length <= most;
		write(at('more'), 'Show ' + plural(Math.min(atOnce, found.length - most), 'more lock', 'more locks') + ' of ' + (found.length - most).toLocaleString('en'));
		at('nothing').hidden = found.length > 0;
		write(at('nothing'), !latest || !latest.seen_ms || latest.searched_nodes ? 'Looking…' : locks.size ? 'No lock matches.' : 'No lock is held here, and no contender waits for one.');
		let held = 0, waiters = 0;
		for (const { lock } of locks.values()) {
			held += lock.holders > 0;
			waiters += lock.waiters;
		}
		if (latest && latest.seen_ms) {
			write(at('total'), locks.size.toLocaleString('en'));
			write(at('held'), held.toLocaleString('en'));
			write(at('waiters'), waiters.toLocaleString('en'));
		}
		tick();
	};
	const tick = () => {
		let oldest = Infinity;
		for (const e of locks.values()) {
			if (e.wait) oldest = Math.min(oldest, e.wait);
			if (e.row && e.row.isConnected) for (const [node, since, most] of e.times) write(node, most + age(since));
		}
		for (const node of document.querySelectorAll('#contenders [data-since]')) write(node, node.dataset.bound + age(Number(node.dataset.since)));
		if (latest && latest.seen_ms) write(at('longest'), oldest < Infinity ? age(oldest) : '–');
		if (lease) {
			const left = Math.max(0, lease.left_ms - (performance.now() - lease.heard));
			document.documentElement.style.setProperty('--lease', (left / lease.of_ms).toFixed(3));
		}
		status();
	};
	const status = () => {
		let state = latest ? latest.state : 'connecting', text = state, notice = '';
		if (!source || source.readyState !== EventSource.OPEN) {
			[state, text] = broken && latest ? ['lost', 'no connection to the board'] : ['connecting', 'connecting'];
		} else if (state === 'connected') text = 'live';
		else notice = 'ZooKeeper: ' + state + '.';
		if (latest && latest.error) notice = clean(latest.error) + '.';
		const troubled = Boolean(notice);
		if (latest && latest.searched_nodes) notice = (notice + ' Still searching: ' + plural(latest.searched_nodes, 'node', 'nodes') + ' so far.').trim();
		const old = latest && latest.seen_ms && Date.now() + ahead - latest.seen_ms > 3 * latest.interval_ms + latest.took_ms + 1000;
		if (latest && latest.seen_ms && (troubled || old)) notice = (notice + ' What is shown was seen ' + age(latest.seen_ms) + ' ago.').trim();
		at('status').dataset.state = state;
		write(at('status'), text);
		at('notice').hidden = !notice;
		write(at('notice'), notice);
	};
	const moments = (all) => {
		if (!all.length) return;
		timeline.push(...all);
		timeline.splice(0, Math.max(0, timeline.length - inTimeline));
		const list = at('timeline'), items = [];
		for (const m of all.slice(-inTimeline).reverse()) {
			const item = element('li'), time = element('time', '', new Date(m.at_ms).toTimeString().slice(0, 8));
			item.dataset.what = m.what;
			time.dateTime = new Date(m.at_ms).toISOString();
			const verb = { queued: 'waits', asked: 'revocation', refused: 'revocation refused', away: 'not seen', expired: 'session ended' }[m.what] ?? m.what;
			item.append(time, element('span', 'what', verb));
			if (m.path) item.append(' ', element('bdi', '', clean(m.path)));
			const note = [m.who && clean(m.who), m.own && 'this process', m.note && brief(m.note)].filter(Boolean).join(', ');
			if (note) {
				item.append(element('bdi', 'note', note));
				item.title = clean(m.note ?? '');
			}
			items.push(item);
		}
		list.prepend(...items);
		while (list.children.length > inTimeline) list.lastChild.remove();
		at('quiet').hidden = true;
	};

	// What the server says.
	const take = (u) => {
		performance.clearMeasures('update');
		const began = performance.now();
		if (u.reset) {
			for (const e of locks.values()) if (e.row) e.row.remove();
			locks.clear();
			timeline.length = 0;
			at('timeline').replaceChildren();
			at('quiet').hidden = false;
		}
		const known = !u.reset;
		latest = u;
		ahead = u.now_ms - Date.now();
		lease = u.lease ? { ...u.lease, heard: performance.now() } : null;
		for (const id of u.gone ?? []) {
			const e = locks.get(id);
			if (e && e.row) e.row.remove();
			locks.delete(id);
		}
		for (const lock of u.locks ?? []) {
			const e = locks.get(lock.id) ?? { row: null, times: [] };
			e.lock = lock;
			e.stale = true;
			e.own = Boolean(lock.own);
			e.wait = lock.oldest_wait_since ? Date.parse(lock.oldest_wait_since) : undefined;
			e.hold = undefined;
			for (const c of lock.contenders) if (c.holding) e.hold = Math.min(e.hold ?? Infinity, begin(c));
			e.words = [lock.path, lock.kind, kindOf(lock), ...lock.contenders.map((c) => c.data ?? '')].join('\n').toLowerCase();
			if (known && e.row) {
				e.row.classList.remove('fresh');
				requestAnimationFrame(() => e.row.classList.add('fresh'));
			}
			locks.set(lock.id, e);
		}
		write(at('root'), clean(u.root));
		document.title = 'Locks below ' + clean(u.root);
		moments(u.events ?? []);
		render();
		if (chosen && (unsure || u.reset || (u.gone ?? []).includes(chosen) || (u.locks ?? []).some((l) => l.id === chosen))) detail();
		performance.measure('update', { start: began });
	};
	const connect = () => {
		clearTimeout(retry);
		if (source) source.close();
		source = new EventSource('events');
		source.onmessage = (e) => {
			broken = false;
			take(JSON.parse(e.data));
		};
		source.onerror = () => {
			broken = true;
			if (source && source.readyState === EventSource.CLOSED) retry = setTimeout(connect, 2000);
			status();
		};
	};
	document.addEventListener('visibilitychange', () => { // a hidden page costs nothing
		if (!document.hidden) connect();
		else if (source) {
			clearTimeout(retry);
			source.close();
			source = null;
		}
	});

	// All contenders of a lock.
	const open = (id) => {
		chosen = id;
		at('contenders').replaceChildren();
		at('revoke').open = false;
		at('answer').textContent = '';
		at('cut').hidden = true;
		write(at('about'), '…');
		write(at('path'), clean(locks.get(id).lock.path));
		at('detail').showModal();
		detail();
	};
	at('detail').addEventListener('close', () => {
		if (!at('detail').open) chosen = ''; // it may have been opened again
	});
	const detail = async () => {
		if (asking) {
			again = true;
			return;
		}
		asking = true;
		do {
			again = false;
			const id = chosen;
			try {
				const gone = !locks.has(id) && latest.seen_ms && !latest.error && !latest.searched_nodes; // then the board need not be asked
				const response = gone ? null : await fetch('queues.json?lock=' + encodeURIComponent(id));
				if (response && !response.ok && response.status !== 404) throw new Error(clean((await response.text()).trim()) || response.status);
				const lock = response && response.ok ? (await response.json()).locks[0] : null;
				if (id === chosen) show(lock);
			} catch (err) {
				if (id === chosen) {
					unsure = true; // ask again with the next update
					write(at('about'), 'The board cannot tell: ' + err.message);
				}
			}
		} while (again && chosen);
		asking = false;
	};
	const show = (lock) => {
		unsure = false;
		at('scroll').hidden = !lock || !lock.contenders.length;
		const ask = Boolean(lock && latest.revoke && lock.holders && !lock.not_revocable);
		at('firm').hidden = !(lock && latest.revoke && lock.not_revocable);
		at('ask').querySelector('button').disabled = !ask || revoking;
		at('revoke').hidden = !ask && !at('answer').textContent; // an answer stays until the dialog is closed
		if (!lock) {
			write(at('about'), 'It is gone: no holders, no waiters.');
			at('contenders').replaceChildren();
			at('cut').hidden = true;
			return;
		}
		write(at('about'), [kindOf(lock), lock.size ? plural(lock.size, 'permit', 'permits') : '', plural(lock.holders, 'holder', 'holders'), plural(lock.waiters, 'waiter', 'waiters')].filter(Boolean).join(' · '));
		let position = 0;
		at('contenders').replaceChildren(...lock.contenders.slice(0, inDetail).map((c) => {
			const row = element('tr');
			const cell = (label, name, ...children) => {
				const made = element('td', name);
				made.dataset.label = label;
				const inner = element('div');
				inner.append(...children);
				made.append(inner);
				row.append(made);
			};
			const since = element('span');
			since.dataset.since = begin(c);
			since.dataset.bound = bound(c);
			since.title = new Date(begin(c)).toISOString();
			cell('State', '', element('span', 'state ' + (c.holding ? 'holds' : ''), doing(c) + (c.holding ? '' : ', ' + ++position)));
			cell('Data', '', element('bdi', '', c.data ? who(c) : '–'), c.own ? element('span', 'mine', 'this process') : '');
			cell('Since', '', since);
			cell('Kind', '', c.kind + (c.permits > 1 ? ' ×' + c.permits : ''));
			cell('Token', 'token', c.token);
			cell('Session', 'code', c.session);
			cell('Node', 'code', element('bdi', '', clean(c.node.slice(c.node.lastIndexOf('/') + 1))));
			return row;
		}));
		at('cut').hidden = lock.contenders.length <= inDetail;
		write(at('cut'), 'The first ' + inDetail + ' of ' + plural(lock.contenders.length, 'contender', 'contenders') + '.');
		tick();
	};
	at('ask').addEventListener('submit', async (e) => {
		e.preventDefault();
		const id = chosen, button = e.target.querySelector('button');
		revoking = button.disabled = true;
		at('answer').textContent = 'Waiting for the holders…';
		let text;
		try {
			const response = await fetch('revoke', {
				method: 'POST', headers: { 'Content-Type': 'application/json' },
				body: JSON.stringify({ lock: id, grace_seconds: at('grace').valueAsNumber }),
			});
			text = response.ok ? 'The holders that were asked are gone.' : brief((await response.text()).trim());
		} catch (err) {
			text = 'The board does not answer: ' + err.message;
		}
		revoking = false;
		const now = locks.get(chosen)?.lock;
		button.disabled = !now?.holders || Boolean(now.not_revocable);
		if (id === chosen) at('answer').textContent = text;
	});

	// Hands.
	const dialog = () => document.querySelector('dialog[open]');
	const step = (by) => {
		const names = [...document.querySelectorAll('#locks .name')];
		const now = names.findIndex((n) => n.closest('.lock').contains(document.activeElement));
		const next = names[now < 0 ? (by > 0 ? 0 : names.length - 1) : Math.min(names.length - 1, Math.max(0, now + by))];
		if (next) {
			next.focus();
			next.scrollIntoView({ block: 'nearest' });
		}
	};
	const flip = (id) => {
		at(id).checked = !at(id).checked;
		render();
	};
	const keys = {
		'/': () => at('filter').focus(), '?': () => at('keys').showModal(), j: () => step(1), k: () => step(-1),
		w: () => flip('contended'), o: () => flip('own'),
		s: () => {
			at('sort').selectedIndex = (at('sort').selectedIndex + 1) % at('sort').length;
			render();
		},
	};
	document.addEventListener('keydown', (e) => {
		if (e.ctrlKey || e.metaKey || e.altKey || dialog()) return;
		const inField = e.target.closest('input, select');
		if (e.key === 'Escape' && e.target === at('filter')) {
			at('filter').value = '';
			at('filter').blur();
			render();
			return;
		}
		const arrow = { ArrowDown: 'j', ArrowUp: 'k' }[e.key];
		const act = keys[arrow && e.target.closest('.lock') ? arrow : e.key];
		if (!act || inField) return;
		e.preventDefault();
		act();
	});
	at('help').addEventListener('click', keys['?']);
	at('tools').addEventListener('submit', (e) => e.preventDefault());
	at('tools').addEventListener('input', () => {
		most = atOnce;
		render();
	});
	at('more').addEventListener('click', () => {
		most += atOnce;
		render();
	});
	setInterval(tick, 1000); // ages grow without news
	if (!document.hidden) connect();
})();
