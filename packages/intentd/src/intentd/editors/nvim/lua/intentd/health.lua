-- `:checkhealth intentd`: what the plugin needs, and what runs here.
local health, M = vim.health, {}

local function command() -- the words before `lsp` with which the language server is started
  local cmd = (vim.lsp.config.intentd or {}).cmd
  for index, word in ipairs(type(cmd) == 'table' and cmd or {}) do
    if word == 'lsp' then return vim.list_slice(cmd, 1, index - 1) end
  end
  return { 'intentd' }
end

-- Whether it went well, and the lines that were said; intentd itself waits 10 s for its daemon.
local function run(word)
  local words = vim.list_extend(command(), { word })
  local _, ended = pcall(function() return vim.system(words, { text = true }):wait(20000) end)
  if type(ended) ~= 'table' then return false, { tostring(ended) } end
  local said = vim.trim(ended.stdout .. '\n' .. ended.stderr)
  return ended.code == 0, vim.split(said ~= '' and said or ('`intentd %s` does not end'):format(word), '\n')
end

local function check_editor()
  if vim.lsp.inline_completion then return health.ok('this Neovim has inline completion') end
  health.warn('this Neovim has no inline completion; everything else works', { 'take 0.12 or newer' })
end

local function check_client()
  local count = #vim.lsp.get_clients({ name = 'intentd' })
  if count > 0 then return health.ok(('%d language server(s) of intentd run'):format(count)) end
  local advice = { 'open a file with a filetype; where one is open, :LspLog and `intentd lsp` in a terminal say more' }
  health.warn('no language server of intentd runs in this editor', advice)
end

local function check_daemon()
  local well, lines = run('status')
  if not well then return health.warn(lines[#lines], { 'a language server starts it where none serves: see above' }) end
  health.ok('intentd serves')
  for _, line in ipairs(lines) do
    local lacks = line:match('^problem') or line:match('does not answer$')
    local say = lacks and health.warn or health.info
    say(line)
  end
end

function M.check()
  health.start('intentd')
  if vim.fn.has('nvim-0.11') == 0 then return health.error('Neovim is older than 0.11: the plugin does nothing') end
  check_editor()
  local well, lines = run('--version')
  if not well then
    local advice = { 'put it on the PATH that Neovim is started with, or name it in vim.lsp.config' }
    return health.error(('`%s` cannot be run: %s'):format(table.concat(command(), ' '), lines[#lines]), advice)
  end
  health.ok(lines[1])
  check_client()
  check_daemon()
end
return M
