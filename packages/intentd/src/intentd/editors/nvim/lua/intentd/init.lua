-- Forwards diagnostics, cursor and selection to the language server, asks it, and shows its answers in a float.
local api, fn, util, M, found_at, waiting, shown, last = vim.api, vim.fn, vim.lsp.util, {}, {}, nil, nil, nil
local function client_of(buf) return vim.lsp.get_clients({ name = 'intentd', bufnr = buf })[1] end
local function here(client) return util.make_position_params(0, client.offset_encoding).position end
local function tell(client, buf, method, said)
  said.textDocument = { uri = vim.uri_from_bufnr(buf), version = util.buf_versions[buf] }
  client:notify(method, said)
end

local function range(client, buf, row, column, last_row, behind)
  local function place(at, bytes)
    local line = api.nvim_buf_get_lines(buf, at, at + 1, false)[1] or ''
    return { line = at, character = vim.str_utfindex(line, client.offset_encoding, math.max(bytes, 0), false) }
  end
  return { start = place(row, column), ['end'] = place(last_row, behind) }
end

local function tell_where()
  waiting = nil
  local buf, mode = api.nvim_get_current_buf(), api.nvim_get_mode().mode
  local client = client_of(buf)
  last = client and client.id or last
  if client and mode:match('^[vV\22]') then
    local lines = fn.getregionpos(fn.getpos('v'), fn.getpos('.'), { type = mode:sub(1, 1) })
    local from, to = lines[1][1], lines[#lines][2]
    tell(client, buf, 'intent/selection', { range = range(client, buf, from[2] - 1, from[3] - 1, to[2] - 1, to[3]) })
  elseif client then
    tell(client, buf, 'intent/cursor', { position = here(client), insert = mode:match('^[iR]') ~= nil })
  end
end

function M.moved() waiting = waiting or vim.defer_fn(tell_where, 30) end -- the server has a patience of its own

-- Neovim keeps a diagnostic where it was found, the server moves it with the edits: `data` says which are found anew.
function M.diagnosed(event)
  local client, found, new = client_of(event.buf), {}, (event.data and event.data.diagnostics or {})[1]
  if new then found_at[event.buf .. ' ' .. new.namespace] = vim.uv.hrtime() end
  for _, seen in ipairs(client and vim.diagnostic.get(event.buf) or {}) do
    local said = { severity = seen.severity, message = seen.message, source = seen.source, code = seen.code }
    said.data = found_at[event.buf .. ' ' .. seen.namespace]
    said.range = range(client, event.buf, seen.lnum, seen.col, seen.end_lnum or seen.lnum, seen.end_col or seen.col)
    if seen.namespace ~= vim.lsp.diagnostic.get_namespace(client.id) then table.insert(found, said) end
  end
  return client and tell(client, event.buf, 'intent/diagnostics', { diagnostics = found })
end

function M.attached(event)
  local client = vim.lsp.get_client_by_id(event.data.client_id)
  if not client or client.name ~= 'intentd' then return end
  require('intentd.inline').enable(client, event.buf)
  M.diagnosed(event)
  M.moved()
end

-- A person who opens a file in the float gives it another buffer, or this one a name.
local function is_open() return shown and fn.winbufnr(shown.win) == shown.buf and fn.bufname(shown.buf) == '' end
local function shows(said, from) return is_open() and said.answer == shown.answer and from.client_id == shown.client end
local function open(answer, client, title)
  if is_open() then api.nvim_win_close(shown.win, true) end
  local width, height = math.min(84, vim.o.columns - 4), math.max(3, math.floor(vim.o.lines / 3))
  local buf, reads = api.nvim_create_buf(false, true), api.nvim_get_mode().mode .. fn.getcmdwintype() == 'n'
  local win = api.nvim_open_win(buf, reads, { -- who types stays there
    relative = 'editor', row = vim.o.lines - height - 4, col = vim.o.columns - width - 2, width = width,
    height = height, style = 'minimal', border = 'rounded', title = title, footer = ' q closes, <C-c> stops ',
  })
  vim.bo[buf].bufhidden, vim.bo[buf].filetype, vim.wo[win].linebreak = 'wipe', 'markdown', true
  vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = buf, nowait = true })
  vim.keymap.set('n', '<C-c>', M.stop, { buffer = buf })
  shown = { answer = answer, client = client, buf = buf, win = win }
end

function M.answer(_, said, from)
  if said.kind == 'begin' then return open(said.answer, from.client_id, ' ' .. (said.title or 'intentd') .. ' ') end
  if not shows(said, from) then return end
  if said.kind == 'end' then return shown.text or api.nvim_win_close(shown.win, true) end
  local follows = api.nvim_win_get_cursor(shown.win)[1] == api.nvim_buf_line_count(shown.buf)
  shown.text = true
  api.nvim_buf_set_text(shown.buf, -1, -1, -1, -1, vim.split(said.text, '\r?\n'))
  if follows then api.nvim_win_set_cursor(shown.win, { api.nvim_buf_line_count(shown.buf), 0 }) end
end

local function ended(fault, result, from)
  if fault then vim.notify('intentd: ' .. fault.message, vim.log.levels.WARN) end
  if type(result) ~= 'table' or not shows(result, from) then return end
  local words = (' %s, first token after %.0f ms; q closes '):format(result.outcome, result.first_token_ms or 0)
  api.nvim_win_set_config(shown.win, { footer = words })
end

local function execute(name, said, client)
  local buf = api.nvim_get_current_buf()
  client = client or client_of(buf) or vim.lsp.get_client_by_id(last or 0) or client_of()
  if not client then return vim.notify('intentd: no language server runs for this file', vim.log.levels.WARN) end
  if said == 'here' then said = { uri = vim.uri_from_bufnr(buf), position = here(client) } end
  client:request('workspace/executeCommand', { command = name, arguments = { said or vim.empty_dict() } }, ended, buf)
end

-- The offer with a number; else what is wrong in this file; with `!`, or where nothing is, what failed last.
function M.explain(given)
  local wrong = not given.bang and #vim.diagnostic.get(0) > 0 and 'here'
  execute('intent.explain', given.args ~= '' and { offer = tonumber(given.args) or given.args } or wrong)
end
function M.fix() execute('intent.fix', 'here') end
function M.stop()
  local client = shown and vim.lsp.get_client_by_id(shown.client)
  execute('intent.stop', client and { answer = shown.answer }, client)
end
return M
